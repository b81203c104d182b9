"""Django Ninja on Django's ORM and SQLite, for gunicorn: DATABASE and TOKEN are its environment."""

import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import IntegrityError, connection, models
from django.http import HttpRequest
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ["DATABASE"],
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
                "timeout": 30,
                "transaction_mode": "IMMEDIATE",
            },
        }
    },
)
django.setup()

# Ninja reads the settings when it is imported.
from ninja import NinjaAPI, Schema  # noqa: E402
from ninja.errors import HttpError  # noqa: E402
from ninja.security import HttpBearer  # noqa: E402


class Plant(models.Model):  # noqa: DJ008
    """The table of plants."""

    id = models.BigIntegerField(primary_key=True)
    name = models.TextField()
    tag = models.TextField(null=True)  # noqa: DJ001

    class Meta:
        """Its name."""

        app_label = "plants"
        db_table = "plants"


class NewPlant(Schema):
    """What comes."""

    id: int
    name: str
    tag: str | None = None


class PlantOut(Schema):
    """What goes."""

    name: str
    tag: str | None = None


class TokenAuth(HttpBearer):
    """Takes the one token."""

    def authenticate(self, _request: HttpRequest, token: str) -> str | None:
        return token if token == os.environ["TOKEN"] else None


api = NinjaAPI(auth=TokenAuth())


@api.post("/plants", response=PlantOut, exclude_none=True)
def create_plant(request: HttpRequest, payload: NewPlant) -> Plant:  # noqa: ARG001
    try:
        return Plant.objects.create(**payload.dict())
    except IntegrityError as error:
        raise HttpError(409, str(error)) from error


urlpatterns = [path("", api.urls)]

if "plants" not in connection.introspection.table_names():
    with connection.schema_editor() as editor:
        editor.create_model(Plant)

application = get_wsgi_application()

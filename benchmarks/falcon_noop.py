"""The no-op of others: Falcon on uvicorn, as both come, with a handler that does nothing.

It reads the body and answers with a constant. The difference between a create and this handler is
the cost of everything that the service does: authentication, checks, the store, metrics.
"""

import sys

import uvicorn
from falcon.asgi import App, Request, Response

PLANT = b'{"name":"Abies balsamea (L.) Mill.","tag":"Abies"}'


class Plants:
    """Reads a plant, and forgets it."""

    async def on_post(self, req: Request, resp: Response) -> None:
        """Answer with a constant."""
        await req.stream.readall()
        resp.data = PLANT


def main(_database: str, port: str) -> None:
    app: App[Request, Response] = App()
    app.add_route("/plants", Plants())
    uvicorn.run(app, port=int(port), access_log=False, log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])

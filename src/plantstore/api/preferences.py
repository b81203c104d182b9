"""The preferences of a request (RFC 7240)."""

from falcon.asgi import Request

from plantstore.api.accept import elements_of


def has_preference(req: Request, preference: str) -> bool:
    """Return whether a request has a preference, such as `return=minimal`.

    If a preference is given several times, the first one counts (RFC 7240 §2).
    """
    wanted, _, wanted_value = preference.partition("=")
    for element in elements_of(req.get_header("Prefer") or ""):
        name, _, value = element.lower().partition(";")[0].partition("=")
        if name.strip() == wanted:
            return value.strip().strip('"') == wanted_value
    return False

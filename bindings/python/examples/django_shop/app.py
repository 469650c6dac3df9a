"""A product catalogue over Django: products are read through larder, and a change invalidates them in every process.

    PORT         the port, 8000 by default
    REDIS_URL    the Redis of all processes, such as redis://localhost:6379; without it there is only memory
    ORIGIN_FILE  a JSON file that is the database of all processes; without it the database is in memory
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    ROOT_URLCONF=__name__,
    CACHES={
        "default": {
            "BACKEND": "larder_cache.django.LarderCache",
            "LOCATION": os.environ.get("REDIS_URL", ""),
            "TIMEOUT": 300,
            # Programs in other languages have the same view: they must agree on namespace, view, codec and keys.
            # Without this function a key would be `:1:apple`, with Django's prefix and version.
            "KEY_FUNCTION": lambda key, prefix, version: key,
            "OPTIONS": {"namespace": "shop", "view": "product", "codec": "messagepack", "grace": "1h"},
        }
    },
)

# Django reads the settings when these are imported.
from django.core.cache import cache
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, Http404, HttpResponse, JsonResponse
from django.urls import path, re_path
from django.views.decorators.http import require_http_methods
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from larder_cache.prometheus import Collector

#: In cents.
MAX_PRICE = 1_000_000
#: The seconds of a query, so that one can see whether there was one.
QUERY = 0.3

# The database.

in_memory = {
    "apple": {"name": "Apple", "price": 120},
    "pear": {"name": "Pear", "price": 150},
    "plum": {"name": "Plum", "price": 90},
}
origin = Path(os.environ["ORIGIN_FILE"]) if os.environ.get("ORIGIN_FILE") else None
#: One thread changes it at a time.
changing = threading.Lock()


def read():
    return json.loads(origin.read_text()) if origin else in_memory


def write(products):
    global in_memory
    in_memory = products
    if origin:
        # Renamed, so that no process reads half of it.
        draft = origin.with_name(f"{origin.name}.{os.getpid()}")
        draft.write_text(json.dumps(products, indent=2))
        draft.replace(origin)


if origin and not origin.exists():
    write(in_memory)


def find(id):
    products = read()
    if id not in products:
        raise Http404(f"there is no product {shown(id)}")
    return {"id": id, **products[id]}


REGISTRY.register(Collector(cache.larder))


def page(request):
    return FileResponse(Path(__file__).with_name("index.html").open("rb"), content_type="text/html")


@require_http_methods(["GET", "PUT"])
def product(request, id):
    try:
        return change(id, request.body) if request.method == "PUT" else show(id)
    except Http404 as missing:
        return refuse(404, str(missing))


def show(id):
    outcome = "hit"

    def query():
        nonlocal outcome
        outcome = "fwd=miss"
        found = find(id)
        time.sleep(QUERY)
        return found

    found = cache.get_or_set(id, query, tags=[f"product-{id}"])
    return JsonResponse(found, headers={"Cache-Control": "no-store", "Cache-Status": f"Django; {outcome}"})


def change(id, body):
    try:
        sent = json.loads(body)
    except ValueError as wrong:
        return refuse(400, f"the body is no JSON: {wrong}")
    price = sent.get("price") if isinstance(sent, dict) else None
    # In Python True is a whole number.
    if type(price) is not int or not 0 <= price <= MAX_PRICE:
        return refuse(400, f"price is {shown(price)}; it must be a whole number of cents from 0 to {MAX_PRICE}")
    with changing:
        found = {**find(id), "price": price}
        write({**read(), id: {"name": found["name"], "price": price}})
    # After the change: what is loaded from now on is the new product. A load that has begun before is not stored.
    # With a database of Django it would be `cache.invalidate_on_commit(tags=[…])`, inside the transaction.
    cache.invalidate_tags([f"product-{id}"])
    return JsonResponse(found)


def metrics(request):
    return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)


def refuse(status, error):
    return JsonResponse({"error": error}, status=status)


def shown(value):
    return json.dumps(value)[:40]


# A tag has 255 bytes at most.
urlpatterns = [path("", page), re_path(r"^products/([\w-]{1,60})$", product), path("metrics", metrics)]
application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line([sys.argv[0], "runserver", "--noreload", f"localhost:{os.environ.get('PORT', '8000')}"])

"""A Django project in one file, which knows nothing of a cache in front of it. It prints its address."""

import itertools
import sys
import time

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="of a test",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
    ],
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    DATA_UPLOAD_MAX_MEMORY_SIZE=16 << 20,
    LOGGING_CONFIG=None,
)
django.setup()

from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.http import HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.middleware.csrf import get_token
from django.urls import path
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.csrf import csrf_exempt

calls = itertools.count(1)


@cache_control(public=True, max_age=60)
def page(request):
    return HttpResponse(f"page {next(calls)}")


@cache_control(no_cache=True)
def news(request):
    next(calls)
    return HttpResponse("the same news")


def visits(request):
    request.session["visits"] = request.session.get("visits", 0) + 1
    return HttpResponse(f"visits {request.session['visits']}")


@never_cache
def form(request):
    if request.method == "POST":
        return HttpResponseRedirect(request.build_absolute_uri("/page"))
    return HttpResponse(get_token(request))


def old(request):
    return HttpResponseRedirect("/page")


def stream(request):
    def parts():
        for number in range(5):
            yield f"part {number}\n"
            time.sleep(0.1)

    return StreamingHttpResponse(parts())


@csrf_exempt
def upload(request):
    return HttpResponse(f"{len(request.body)} bytes, {sum(request.body) % 65536}")


urlpatterns = [path(view.__name__, view) for view in (page, news, visits, form, old, stream, upload)]


class Handler(WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = ThreadedWSGIServer(("127.0.0.1", 0), Handler)
server.set_app(WSGIHandler())
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
sys.stdout.flush()
server.serve_forever()

"""django-cacheops: results of queries, which scripts store and invalidate."""

from threading import Barrier, Thread

from suite import equal

NAME = "django-cacheops"


def settings(suite):
    """What it adds to the settings of Django."""
    return {
        "INSTALLED_APPS": ["cacheops", __name__],
        "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        "DEFAULT_AUTO_FIELD": "django.db.models.AutoField",
        "CACHEOPS_REDIS": suite.url + "/2",
        "CACHEOPS": {f"{__name__}.*": {"ops": "all", "timeout": 60}},
    }


def run(suite):
    from cacheops import invalidate_all
    from django.db import connection
    from django.test.utils import override_settings

    book = model()
    with connection.schema_editor() as editor:
        editor.create_model(book)
    cases = {
        "queryset": queryset,
        "get and count": get_and_count,
        "update": update,
        "rollback": rollback,
        "cached_as": cached_as,
    }
    # Each way has keys of its own.
    for insideout in (True, False):
        invalidate_all()
        with override_settings(CACHEOPS_INSIDEOUT=insideout):
            for name, case in cases.items():
                label = name + (", inside out" if insideout else "")
                suite.case(NAME, label, lambda: case(book, suite.key()))
    invalidate_all()
    suite.case(NAME, "invalidate", lambda: invalidate(book, suite.key()))
    suite.case(NAME, "lock", lambda: lock(book, suite.key()))
    key = suite.key()
    suite.survives(NAME, lambda: queryset(book, key))


def model():
    from django.db import models

    class Book(models.Model):
        author = models.CharField(max_length=50)
        title = models.CharField(max_length=50)

    return Book


def queries(run):
    """The result of a function, and how many queries the database has got."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        result = run()
    return result, len(captured)


def titles(book, author):
    return queries(lambda: [found.title for found in book.objects.filter(author=author).order_by("title")])


def queryset(book, key):
    """A save invalidates the results that the row is in, and those that it was in before."""
    book.objects.filter(author__startswith=key).delete()
    first = book.objects.create(author=key, title="first")
    book.objects.create(author=key + ":other", title="other")
    equal([titles(book, key) for _ in range(2)], [(["first"], 1), (["first"], 0)])
    equal([titles(book, key + ":other") for _ in range(2)], [(["other"], 1), (["other"], 0)])
    first.title = "changed"
    first.save()
    equal((titles(book, key), titles(book, key + ":other")), ((["changed"], 1), (["other"], 0)))
    first.author = key + ":other"
    first.save()
    equal((titles(book, key), titles(book, key + ":other")), (([], 1), (["changed", "other"], 1)))


def get_and_count(book, key):
    made = book.objects.create(author=key, title="first")
    get = lambda: book.objects.get(pk=made.pk).title
    count = lambda: book.objects.filter(author=key).count()
    equal([queries(get), queries(get), queries(count), queries(count)], [("first", 1), ("first", 0), (1, 1), (1, 0)])
    book.objects.create(author=key, title="second")
    equal((queries(get), queries(count)), (("first", 0), (2, 1)))
    made.delete()
    equal(queries(count), (1, 1))


def update(book, key):
    """An update of many rows invalidates the results of all of them."""
    book.objects.bulk_create([book(author=key, title=str(number)) for number in range(3)])
    equal(titles(book, key), (["0", "1", "2"], 1))
    book.objects.filter(author=key).invalidated_update(title="same")
    equal(titles(book, key), (["same"] * 3, 1))


def rollback(book, key):
    """What a transaction sees before it is rolled back is not cached."""
    from django.db import transaction

    equal(titles(book, key), ([], 1))
    try:
        with transaction.atomic():
            book.objects.create(author=key, title="never")
            equal(titles(book, key)[0], ["never"])
            raise InterruptedError
    except InterruptedError:
        pass
    equal(titles(book, key)[0], [])


def cached_as(book, key):
    """A function whose result depends on a query."""
    import cacheops

    calls = []

    @cacheops.cached_as(book.objects.filter(author=key), extra=key, timeout=60)
    def page(name):
        calls.append(name)
        return {"name": name, "books": book.objects.filter(author=key).nocache().count()}

    equal([page("a"), page("a"), page("b")], [{"name": name, "books": 0} for name in "aab"])
    book.objects.create(author=key, title="first")
    equal((page("a"), calls), ({"name": "a", "books": 1}, ["a", "b", "a"]))


def invalidate(book, key):
    """All results of a row, of a model, and of all models."""
    import cacheops

    made = book.objects.create(author=key, title="first")
    for forget in (lambda: cacheops.invalidate_obj(made), lambda: cacheops.invalidate_model(book), cacheops.invalidate_all):
        titles(book, key)
        equal(titles(book, key)[1], 0)
        forget()
        equal(titles(book, key)[1], 1)


def lock(book, key):
    """Of two threads one computes, and the other one waits for it."""
    import cacheops

    calls, found, together = [], [], Barrier(2)

    @cacheops.cached_as(book, extra=key, timeout=60, lock=True)
    def page():
        calls.append(1)
        return len(calls)

    def read():
        together.wait()
        found.append(page())

    threads = [Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal((found, calls), ([1, 1], [1]))

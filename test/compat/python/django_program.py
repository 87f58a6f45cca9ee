"""Django's ORM over mysqlclient: migrations' schema editor, queries, atomic blocks, introspection."""

import datetime
import decimal

import django
from django.conf import settings

from steps import DATABASE, HOST, PASSWORD, PORT, TLS, USER, run, say, step

settings.configure(
    DATABASES={"default": {
        "ENGINE": "django.db.backends.mysql", "HOST": HOST, "PORT": PORT, "USER": USER, "PASSWORD": PASSWORD,
        "NAME": DATABASE, "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"charset": "utf8mb4", "isolation_level": "read committed", **({"ssl_mode": "REQUIRED"} if TLS else {})}}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True)
django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.db.models import Count, F, Q, Sum  # noqa: E402


class Order(models.Model):
    title = models.CharField(max_length=40)
    total = models.DecimalField(max_digits=10, decimal_places=2)
    when = models.DateTimeField()
    extra = models.JSONField(null=True)
    data = models.BinaryField(null=True)

    class Meta:
        app_label = "compat"


@step
def migrations():
    call_command("migrate", verbosity=0, interactive=False)
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    with connection.cursor() as cursor:
        say(sorted(table.name for table in connection.introspection.get_table_list(cursor)))
        say([(column.name, column.type_code) for column in
             connection.introspection.get_table_description(cursor, "compat_order")])


@step
def objects():
    moment = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=datetime.timezone.utc)
    order = Order.objects.create(title="ü🧵", total=decimal.Decimal("12.50"), when=moment, extra={"a": [1, None]}, data=b"\0\xff")
    say(order.pk)
    Order.objects.bulk_create(Order(title=f"t{i}", total=i, when=moment) for i in range(500))
    read = Order.objects.get(pk=order.pk)
    say(read.title, read.total, read.when, read.extra, bytes(read.data))
    say(Order.objects.filter(Q(title__startswith="t1") | Q(extra__a__0=1)).count())
    say(Order.objects.filter(total__lt=10).update(total=F("total") + 1))
    say(Order.objects.aggregate(Sum("total"), Count("pk")))
    say(Order.objects.filter(when__year=2024, when__month=2).count())
    say(Order.objects.filter(pk__gt=400).delete())
    say(sum(1 for _ in Order.objects.iterator(chunk_size=50)))
    say(Order.objects.update_or_create(title="ü🧵", defaults={"total": 1})[1])


@step
def atomic_blocks():
    user = User.objects.create_user("anna", password="secret")
    user.groups.add(Group.objects.create(name="staff"))
    say(User.objects.filter(groups__name="staff").values_list("username", flat=True)[:5])
    try:
        with transaction.atomic():
            User.objects.filter(pk=user.pk).update(first_name="lost")
            with transaction.atomic():
                User.objects.create(username="inner")
            raise RuntimeError("roll back")
    except RuntimeError:
        pass
    say(User.objects.get(pk=user.pk).first_name, User.objects.count())
    try:
        with transaction.atomic():
            User.objects.create(username="anna")
    except IntegrityError as error:
        say(error.args)
    with transaction.atomic():
        say(User.objects.select_for_update().get(username="anna").check_password("secret"))
    done = []
    with transaction.atomic():
        transaction.on_commit(lambda: done.append(1))
    say(done)


@step
def raw_and_reconnect():
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@tx_isolation, @@autocommit, %s", ["%"])
        say(cursor.fetchall())
    connection.close()
    connection.close_if_unusable_or_obsolete()
    connection.ensure_connection()
    say(connection.is_usable(), User.objects.count(), connection.mysql_is_mariadb, connection.features.has_select_for_update)


run()

import django
from django.conf import settings

# {{settings}}

settings.configure(DATABASES=DATABASES)  # noqa: F821
django.setup()

from django.db import OperationalError, connections, transaction  # noqa: E402

with connections["default"].cursor() as cursor:
    cursor.execute("CREATE TABLE django (id INT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(20))")
    with transaction.atomic():
        cursor.executemany("INSERT INTO django (title) VALUES (%s)", [["ü🧵"], ["b"]])
connections["default"].close()
with connections["default"].cursor() as cursor:
    cursor.execute("SELECT COUNT(*) FROM django")
    count = cursor.fetchone()[0]
try:
    with transaction.atomic(), connections["default"].cursor() as cursor:
        cursor.execute("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
except OperationalError as error:
    again = error.args[0] == 1213
with connections["reports"].cursor() as cursor:
    cursor.execute("SELECT @@heddle_consistency")
    print(count, cursor.fetchone()[0], again)

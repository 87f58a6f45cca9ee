# {{settings}}

from sqlalchemy import text  # noqa: E402
from sqlalchemy.exc import OperationalError  # noqa: E402

with engine.begin() as writes, engine.connect() as reads:  # noqa: F821
    writes.execute(text("CREATE TABLE sqlalchemy (id INT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(20))"))
    writes.execute(text("INSERT INTO sqlalchemy (title) VALUES (:title)"), [{"title": "ü🧵"}, {"title": "b"}])
    writes.commit()
    count = reads.execute(text("SELECT COUNT(*) FROM sqlalchemy")).scalar()
try:
    with engine.begin() as connection:  # noqa: F821
        connection.execute(text("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213"))
except OperationalError as error:
    again = error.orig.args[0] == 1213
with reports.connect() as connection:  # noqa: F821
    print(count, connection.execute(text("SELECT @@heddle_consistency")).scalar(), again)

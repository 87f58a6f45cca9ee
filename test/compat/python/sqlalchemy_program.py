"""SQLAlchemy over PyMySQL: schema creation and reflection, ORM units of work, pool with pre-ping."""

import datetime
import decimal

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects.mysql import insert

from steps import DATABASE, HOST, PASSWORD, PORT, TLS, USER, run, say, step

URL = sa.URL.create("mysql+pymysql", USER, PASSWORD, HOST, PORT, DATABASE, query={"charset": "utf8mb4"})
engine = sa.create_engine(URL, connect_args={"ssl": {"verify_mode": "none", "check_hostname": False}} if TLS else {}, pool_size=4, pool_pre_ping=True, pool_recycle=100)


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(50), unique=True)
    born: orm.Mapped[datetime.date | None]
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    title: orm.Mapped[str] = orm.mapped_column(sa.String(100))
    price: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2))
    extra: orm.Mapped[dict | None] = orm.mapped_column(sa.JSON)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("author.id"))
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


@step
def schema():
    Base.metadata.create_all(engine)
    inspector = sa.inspect(engine)
    say(sorted(inspector.get_table_names()))
    say([(column["name"], str(column["type"])) for column in inspector.get_columns("book")])
    say([(key["constrained_columns"], key["referred_table"]) for key in inspector.get_foreign_keys("book")])
    say(inspector.get_unique_constraints("author"))


@step
def units_of_work():
    with orm.Session(engine) as session:
        author = Author(name="Ünal 🧵", born=datetime.date(1970, 1, 2))
        author.books = [Book(title=f"t{i}", price=decimal.Decimal(i) / 4, extra={"n": [i, None]}) for i in range(30)]
        session.add(author)
        session.commit()
        say(author.id, [book.id for book in author.books][:3])
    with orm.Session(engine) as session:
        author = session.scalars(sa.select(Author).options(orm.selectinload(Author.books))).one()
        say(author.name, author.born, len(author.books), author.books[7].extra, author.books[7].price)
        author.books[0].title = "changed"
        del author.books[1:]
        session.flush()
        say(session.scalar(sa.select(sa.func.count()).select_from(Book)))
        session.rollback()
        say(session.scalar(sa.select(sa.func.count()).select_from(Book)))


@step
def errors_and_savepoints():
    with orm.Session(engine) as session:
        session.add(Author(name="second"))
        session.flush()
        try:
            with session.begin_nested():
                session.add(Author(name="second"))
                session.flush()
        except sa.exc.IntegrityError as error:
            say(error.orig.args)
        session.commit()
        say(session.scalars(sa.select(Author.name).order_by(Author.id)).all())


@step
def upsert_and_bulk():
    with engine.begin() as connection:
        statement = insert(Author).values(name="second", born=datetime.date(2000, 1, 1))
        result = connection.execute(statement.on_duplicate_key_update(born=statement.inserted.born))
        say("upsert", result.rowcount)
        result = connection.execute(sa.insert(Author), [{"name": f"bulk {i}"} for i in range(1000)])
        say("bulk", result.rowcount)
    with engine.connect() as connection:
        say(connection.execute(sa.text("SELECT COUNT(*), SUM(born IS NULL) FROM author")).one())
        rows = connection.execution_options(stream_results=True).execute(sa.select(Author.name).order_by(Author.id))
        say(sum(len(chunk) for chunk in rows.partitions(100)))


@step
def isolation_and_pool():
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        say(connection.scalar(sa.text("SELECT @@tx_isolation")))
    with engine.connect() as connection:
        say(connection.scalar(sa.text("SELECT @@tx_isolation")))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("SET @x = 3"))
        say(connection.scalar(sa.text("SELECT @x")), connection.scalar(sa.text("SELECT @@autocommit")))
    say(engine.dialect.server_version_info, engine.dialect.is_mariadb)
    engine.dispose()
    Base.metadata.drop_all(engine)
    say(sa.inspect(engine).get_table_names())


run()

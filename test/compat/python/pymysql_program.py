"""PyMySQL as its users use it: dict cursors, unbuffered cursors, ping, LOAD DATA LOCAL, pools by hand."""

import os

import pymysql
import pymysql.cursors
from pymysql.constants import CLIENT

import dbapi
from steps import DATABASE, FOLDER, HOST, PASSWORD, PORT, TLS, USER, run, say, step


def connect(**changes):
    options = dict(host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, charset="utf8mb4",
                   local_infile=True, **({"ssl": {"verify_mode": "none", "check_hostname": False}} if TLS else {}))
    options.update(changes)
    return pymysql.connect(**options)


dbapi.register(pymysql, connect)


@step
def dict_and_unbuffered_cursors():
    with connect(cursorclass=pymysql.cursors.DictCursor) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS a, 'x' AS b")
        say(cursor.fetchall())
    with connect(autocommit=True) as connection:
        with connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute("SELECT seq, REPEAT('x', 200) FROM compat_numbers.seq_1_to_20000")
            say(cursor.fetchone()[0], sum(row[0] for row in cursor))
        # Closed with rows unread: the driver reads them away, and the connection is usable again.
        with connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute("SELECT seq FROM compat_numbers.seq_1_to_5000")
            say(cursor.fetchmany(3))
        with connection.cursor() as cursor:
            cursor.execute("SELECT 'again'")
            say(cursor.fetchall())


@step
def multi_statements():
    with connect(client_flag=CLIENT.MULTI_STATEMENTS, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1; SELECT 2, 3; SET @z = 9; SELECT @z")
        say(cursor.fetchall())
        while cursor.nextset():
            say(cursor.fetchall())
        try:
            cursor.execute("SELECT 1; SELECT * FROM not_there; SELECT 3")
            say(cursor.fetchall())
            while cursor.nextset():
                say(cursor.fetchall())
        except pymysql.err.Error as error:
            say(error.args)


@step
def found_rows():
    with connect(client_flag=CLIENT.FOUND_ROWS, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE found (n INT)")
        cursor.execute("INSERT INTO found VALUES (1), (2)")
        say(cursor.execute("UPDATE found SET n = n"))


@step
def ping_select_db_and_escape():
    with connect() as connection:
        connection.ping(reconnect=False)
        connection.select_db("information_schema")
        connection.autocommit(True)
        with connection.cursor() as cursor:
            cursor.execute("SELECT DATABASE(), @@autocommit")
            say(cursor.fetchall())
        connection.set_character_set("latin1")
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@character_set_client, 'é'")
            say(cursor.fetchall())
        say(connection.get_server_info(), connection.character_set_name())


@step
def load_data_local():
    path = os.path.join(FOLDER, "pymysql.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{number},name {number}\n" for number in range(20000))
        file.write("not a number,x\n")
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE loaded (n INT, name VARCHAR(20))")
        cursor.execute("SET sql_mode = ''")
        say(cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE loaded FIELDS TERMINATED BY ','"))
        cursor.execute("SHOW WARNINGS")
        say(cursor.fetchall())
        cursor.execute("SELECT COUNT(*), SUM(n), MAX(name) FROM loaded")
        say(cursor.fetchall())
        try:
            cursor.execute("LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE loaded")
        except pymysql.err.Error as error:
            say(error.args)
        cursor.execute("SELECT 'alive'")
        say(cursor.fetchall())


run()

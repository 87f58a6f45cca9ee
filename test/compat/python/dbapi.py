"""Steps that every DB-API driver takes alike (PEP 249). A program calls `register(driver, connect)`
and adds what only its driver has."""

import time

from steps import DATABASE, VALUES, VALUES_COLUMNS, VALUES_TABLE, error_fields, say, step


def register(driver, connect):
    @step
    def connects():
        connection = connect()
        cursor = connection.cursor()
        cursor.execute("SELECT DATABASE(), @@character_set_client, @@autocommit")
        say(cursor.fetchall())
        say([column[0] for column in cursor.description])
        connection.close()

    @step
    def transactions():
        connection, other = connect(), connect()
        cursor, reader = connection.cursor(), other.cursor()
        cursor.execute("CREATE TABLE account (id INT PRIMARY KEY, balance INT) ENGINE=InnoDB")
        cursor.execute("INSERT INTO account VALUES (1, 100), (2, 0)")
        connection.commit()
        cursor.execute("UPDATE account SET balance = balance - 30 WHERE id = 1")
        cursor.execute("UPDATE account SET balance = balance + 30 WHERE id = 2")
        reader.execute("/*ms=master*/ SELECT * FROM account ORDER BY id")
        say("others see", reader.fetchall())
        other.rollback()
        connection.commit()
        reader.execute("/*ms=master*/ SELECT * FROM account ORDER BY id")
        say("after commit", reader.fetchall())
        other.rollback()
        cursor.execute("DELETE FROM account")
        say("deleted", cursor.rowcount)
        connection.rollback()
        cursor.execute("SELECT COUNT(*) FROM account")
        say("after rollback", cursor.fetchone())
        cursor.execute("SAVEPOINT here")
        cursor.execute("INSERT INTO account VALUES (3, 3)")
        cursor.execute("ROLLBACK TO here")
        cursor.execute("INSERT INTO account VALUES (4, 4)")
        connection.commit()
        cursor.execute("SELECT * FROM account ORDER BY id")
        say("savepoint", cursor.fetchall())
        connection.close()
        other.close()

    @step
    def errors():
        connection = connect()
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE strict_ (id INT PRIMARY KEY, name VARCHAR(5) NOT NULL)")
        cursor.execute("INSERT INTO strict_ VALUES (1, 'one')")
        connection.commit()
        for statement in ["INSERT INTO strict_ VALUES (1, 'uno')", "SELECT * FROM not_there", "SELEC 1",
                          "INSERT INTO strict_ VALUES (2, 'too long')", "INSERT INTO strict_ (id) VALUES (3)",
                          "SELECT no_such_column FROM strict_", "USE no_such_database", "CALL no_such_routine()",
                          "SELECT 1; SELECT 2", "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own', MYSQL_ERRNO = 31001"]:
            try:
                cursor.execute(statement)
                say(statement, "no error")
                while cursor.nextset():
                    pass
            except driver.Error as error:
                say(statement, *error_fields(error))
            connection.rollback()
        connection.close()

    @step
    def ids_and_counts():
        connection = connect()
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))")
        cursor.execute("INSERT INTO item (name) VALUES (%s)", ("a",))
        say("first", cursor.lastrowid, cursor.rowcount)
        cursor.executemany("INSERT INTO item (name) VALUES (%s)", [(f"n{i}",) for i in range(500)])
        say("many", cursor.rowcount)
        cursor.execute("UPDATE item SET name = name")
        say("unchanged", cursor.rowcount)
        cursor.execute("UPDATE item SET name = 'x' WHERE id < 10")
        say("changed", cursor.rowcount)
        cursor.execute("SELECT LAST_INSERT_ID(), COUNT(*), MAX(id) FROM item")
        say(cursor.fetchall())
        connection.commit()
        connection.close()

    @step
    def values():
        connection = connect()
        cursor = connection.cursor()
        cursor.execute(VALUES_TABLE)
        marks = ", ".join(["%s"] * len(VALUES))
        cursor.execute(f"INSERT INTO everything ({VALUES_COLUMNS}) VALUES ({marks})", list(VALUES.values()))
        connection.commit()
        cursor.execute(f"SELECT {VALUES_COLUMNS} FROM everything")
        say(cursor.fetchall())
        say([column[:7] for column in cursor.description])
        cursor.execute("SELECT id FROM everything WHERE txt = %s AND bin = %s", (VALUES["txt"], VALUES["bin"]))
        say("found", cursor.fetchall())
        big = "🧵" * 300_000
        cursor.execute("SELECT CHAR_LENGTH(%s), %s = %s", (big, big, big))
        say("big", cursor.fetchall())
        connection.close()

    @step
    def reads_own_writes():
        connection = connect()
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE counter (n INT)")
        connection.commit()
        wrong = 0
        for number in range(100):
            cursor.execute("INSERT INTO counter VALUES (%s)", (number,))
            connection.commit()
            cursor.execute("SELECT COUNT(*) FROM counter")
            wrong += cursor.fetchone() != (number + 1,)
            connection.rollback()
        say("wrong", wrong)
        connection.close()

    @step
    def procedures():
        connection = connect()
        cursor = connection.cursor()
        cursor.execute("CREATE PROCEDURE two_results(IN n INT, OUT doubled INT, INOUT text_ VARCHAR(50)) "
                       "BEGIN SELECT n AS n; SELECT n + 1 AS a, 'ü🧵' AS b; "
                       "SET doubled = n * 2; SET text_ = CONCAT(text_, '!'); END")
        arguments = cursor.callproc("two_results", (21, 0, "hi"))
        say("callproc", tuple(arguments) if not isinstance(arguments, dict) else arguments)
        if hasattr(cursor, "stored_results"):
            say([result.fetchall() for result in cursor.stored_results()])
        else:
            say(cursor.fetchall())
            while cursor.nextset():
                say(cursor.fetchall())
            cursor.execute("SELECT @_two_results_0, @_two_results_1, @_two_results_2")
            say("out", cursor.fetchall())
        connection.close()

    @step
    def session_state():
        connection = connect()
        cursor = connection.cursor()
        cursor.execute("SET @x = 5, SESSION sql_mode = 'ANSI_QUOTES', time_zone = '+03:00', @y = 'ü'")
        cursor.execute('SELECT @x + 1, @y, @@sql_mode, @@time_zone, "a"\'b\' FROM (SELECT 1 AS "a") t')
        say(cursor.fetchall())
        cursor.execute("CREATE TEMPORARY TABLE scratch (n INT)")
        cursor.executemany("INSERT INTO scratch VALUES (%s)", [(1,), (2,)])
        connection.commit()
        cursor.execute("SELECT SUM(n) FROM scratch")
        say(cursor.fetchall())
        cursor.execute("SELECT GET_LOCK('compat', 1), IS_USED_LOCK('compat') = CONNECTION_ID(), RELEASE_LOCK('compat')")
        say(cursor.fetchall())
        cursor.execute("SELECT SQL_CALC_FOUND_ROWS 1 UNION SELECT 2 UNION SELECT 3 LIMIT 1")
        cursor.fetchall()
        cursor.execute("SELECT FOUND_ROWS()")
        say(cursor.fetchall())
        cursor.execute("SELECT 1/0, CAST('12x' AS SIGNED)")
        cursor.fetchall()
        cursor.execute("SHOW WARNINGS")
        say(cursor.fetchall())
        connection.close()

    @step
    def killed_query():
        connection, killer = connect(), connect()
        cursor, kill = connection.cursor(), killer.cursor()
        cursor.execute("SELECT CONNECTION_ID()")
        (number,) = cursor.fetchone()
        import threading
        seen = []

        def wait():
            try:
                cursor.execute("SELECT SLEEP(20)")
                seen.append(cursor.fetchall())
            except driver.Error as error:
                seen.append(error_fields(error))
        sleeper = threading.Thread(target=wait)
        begin = time.monotonic()
        sleeper.start()
        while sleeper.is_alive() and time.monotonic() - begin < 15:
            time.sleep(0.3)
            kill.execute(f"KILL QUERY {number}")
        sleeper.join()
        # MariaDB says 1317, or lets SLEEP return 1: both mean that the statement ended early.
        say("ended early", time.monotonic() - begin < 15, len(seen))
        cursor.execute("SELECT 'still here'")
        say(cursor.fetchall())
        connection.close()
        killer.close()

    @step
    def many_connections():
        connections = [connect() for _ in range(20)]
        for number, connection in enumerate(connections):
            connection.cursor().execute("SET @me = %s", (number,))
        seen = []
        for connection in connections:
            cursor = connection.cursor()
            cursor.execute("SELECT @me")
            seen.append(cursor.fetchone()[0])
            connection.close()
        say(seen)

    @step
    def wrong_login():
        try:
            connect(password="wrong")
            say("no error")
        except driver.Error as error:
            say(*error_fields(error)[:2])
        try:
            connect(database="no_such_database")
            say("no error")
        except driver.Error as error:
            say(*error_fields(error)[:2], DATABASE != "no_such_database")

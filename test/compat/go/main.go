// Program compat uses go-sql-driver/mysql through database/sql, as Go services do: pools, contexts,
// prepared and interpolated statements, transactions, LOAD DATA LOCAL. It prints what it saw, step by step.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

func config() *mysql.Config {
	config := mysql.NewConfig()
	config.User = os.Getenv("COMPAT_USER")
	config.Passwd = os.Getenv("COMPAT_PASSWORD")
	config.Net = "tcp"
	config.Addr = os.Getenv("COMPAT_HOST") + ":" + os.Getenv("COMPAT_PORT")
	config.DBName = os.Getenv("COMPAT_DATABASE")
	config.ParseTime = true
	if os.Getenv("COMPAT_TLS") != "" {
		config.TLSConfig = "skip-verify"
	}
	return config
}

func open(change func(*mysql.Config)) *sql.DB {
	own := config()
	if change != nil {
		change(own)
	}
	connector, err := mysql.NewConnector(own)
	check(err)
	return sql.OpenDB(connector)
}

// check ends the step; the error is part of what is compared.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func fail(err error) string {
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		return fmt.Sprintf("%d %s %s", told.Number, told.SQLState, told.Message)
	}
	return fmt.Sprint(err)
}

func rows(found *sql.Rows, err error) {
	check(err)
	defer found.Close()
	for {
		columns := must(found.ColumnTypes())
		for _, column := range columns {
			nullable, _ := column.Nullable()
			precision, scale, _ := column.DecimalSize()
			fmt.Println("column", column.Name(), column.DatabaseTypeName(), nullable, precision, scale, column.ScanType())
		}
		for found.Next() {
			row := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			check(found.Scan(into...))
			for i, value := range row {
				if bytes, ok := value.([]byte); ok {
					row[i] = fmt.Sprintf("%q", bytes)
				}
			}
			fmt.Println(row...)
		}
		if !found.NextResultSet() {
			break
		}
	}
	check(found.Err())
}

const valuesTable = `CREATE TABLE everything (id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED,
	dec_ DECIMAL(30,6), dbl DOUBLE, txt TEXT, bin LONGBLOB, moment DATETIME(6), day DATE, doc JSON, nothing INT)
	DEFAULT CHARSET utf8mb4`

func values(interpolate bool) {
	db := open(func(c *mysql.Config) { c.InterpolateParams = interpolate })
	defer db.Close()
	must(db.Exec("DROP TABLE IF EXISTS everything"))
	must(db.Exec(valuesTable))
	moment := time.Date(1999, 12, 31, 23, 59, 59, 123456000, time.UTC)
	for round := 0; round < 2; round++ {
		result := must(db.Exec("INSERT INTO everything (tiny, big, dec_, dbl, txt, bin, moment, day, doc, nothing) VALUES (?,?,?,?,?,?,?,?,?,?)",
			-128, uint64(18446744073709551615), "-12345678901234567.890123", -1.25e100, "naïve 日本語 🧵 'q' \\",
			[]byte("\x00\xff'\\\x1a"), moment, moment, `{"a": [1, null, "ü"]}`, nil))
		fmt.Println(must(result.LastInsertId()), must(result.RowsAffected()))
	}
	rows(db.Query("SELECT * FROM everything WHERE txt = ? AND moment = ? ORDER BY id", "naïve 日本語 🧵 'q' \\", moment))
	big := strings.Repeat("x", 3_000_000)
	var length int
	check(db.QueryRow("SELECT LENGTH(?)", big).Scan(&length))
	fmt.Println(length)
}

func transactions() {
	db := open(nil)
	defer db.Close()
	must(db.Exec("CREATE TABLE account (id INT PRIMARY KEY, balance INT)"))
	count := func(query interface {
		QueryRow(string, ...any) *sql.Row
	}) (n int) {
		check(query.QueryRow("/*ms=master*/ SELECT COUNT(*) FROM account").Scan(&n))
		return n
	}
	tx := must(db.Begin())
	must(tx.Exec("INSERT INTO account VALUES (?, ?)", 1, 100))
	fmt.Println(count(db), count(tx))
	check(tx.Commit())
	fmt.Println(count(db))
	tx = must(db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelSerializable}))
	must(tx.Exec("DELETE FROM account"))
	check(tx.Rollback())
	fmt.Println(count(db))
	tx = must(db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true}))
	_, err := tx.Exec("DELETE FROM account")
	fmt.Println(fail(err))
	check(tx.Rollback())
}

func failures() {
	db := open(nil)
	defer db.Close()
	for _, text := range []string{"SELECT * FROM not_there", "SELEC", "SELECT 1; SELECT 2", "INSERT INTO account VALUES (1, 1)",
		"USE no_such_database", "CALL no_such_routine()"} {
		_, err := db.Exec(text)
		fmt.Println(text, fail(err))
		_, err = db.Prepare(text)
		fmt.Println("prepared", fail(err))
	}
	for _, change := range []func(*mysql.Config){
		func(c *mysql.Config) { c.Passwd = "wrong" }, func(c *mysql.Config) { c.DBName = "no_such_database" },
		func(c *mysql.Config) { c.User = "nobody" }} {
		other := open(change)
		fmt.Println(fail(other.Ping()))
		other.Close()
	}
}

func several() {
	db := open(func(c *mysql.Config) { c.MultiStatements = true })
	defer db.Close()
	rows(db.Query("SELECT 1 AS a; SELECT 2 AS b, 'ü' AS c; SELECT 3 AS d FROM (SELECT 1) t WHERE 0"))
	result := must(db.Exec("CREATE TABLE many (n INT); INSERT INTO many VALUES (1), (2); INSERT INTO many VALUES (3)"))
	fmt.Println(must(result.RowsAffected()))
	must(db.Exec("CREATE PROCEDURE several(IN n INT) BEGIN SELECT n; SELECT n + 1 AS a, 'ü' AS b; END"))
	rows(db.Query("CALL several(21)"))
	rows(db.Query("CALL several(?)", 7))
	_, err := db.Query("SELECT 1; SELECT * FROM not_there")
	fmt.Println(err == nil)
}

func statements() {
	db := open(nil)
	defer db.Close()
	must(db.Exec("CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, n INT)"))
	insert := must(db.Prepare("INSERT INTO item (n) VALUES (?)"))
	read := must(db.Prepare("SELECT n FROM item WHERE id = ?"))
	var group sync.WaitGroup
	wrong := make(chan string, 200)
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			// One connection: what a session wrote it reads.
			conn, err := db.Conn(context.Background())
			if err != nil {
				wrong <- fail(err)
				return
			}
			defer conn.Close()
			own, err := conn.PrepareContext(context.Background(), "SELECT n FROM item WHERE id = ?")
			if err != nil {
				wrong <- fail(err)
				return
			}
			for n := 0; n < 25; n++ {
				result, err := conn.ExecContext(context.Background(), "INSERT INTO item (n) VALUES (?)", n)
				if err != nil {
					wrong <- fail(err)
					continue
				}
				id, _ := result.LastInsertId()
				var seen int
				if err := own.QueryRow(id).Scan(&seen); err != nil || seen != n {
					wrong <- fmt.Sprint(seen, n, err)
				}
			}
		}()
	}
	group.Wait()
	close(wrong)
	var all []string
	for line := range wrong {
		all = append(all, line)
	}
	sort.Strings(all)
	fmt.Println(len(all), all)
	must(insert.Exec(5))
	check(read.Close())
}

func state() {
	db := open(func(c *mysql.Config) {
		c.Params = map[string]string{"sql_mode": "'ANSI_QUOTES'", "time_zone": "'+03:00'"}
		c.ClientFoundRows = true
	})
	defer db.Close()
	conn := must(db.Conn(context.Background()))
	defer conn.Close()
	must(conn.ExecContext(context.Background(), "SET @x = 5"))
	must(conn.ExecContext(context.Background(), "CREATE TEMPORARY TABLE scratch (n INT)"))
	must(conn.ExecContext(context.Background(), "INSERT INTO scratch VALUES (1)"))
	result := must(conn.ExecContext(context.Background(), "UPDATE scratch SET n = 1"))
	fmt.Println(must(result.RowsAffected()))
	rows(conn.QueryContext(context.Background(), `SELECT @x, @@sql_mode, @@time_zone, n FROM "scratch"`))
}

func cancelled() {
	db := open(nil)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := db.ExecContext(ctx, "SELECT SLEEP(20)")
	fmt.Println(err)
	rows(db.Query("SELECT 'alive'"))
}

func pool() {
	db := open(nil)
	defer db.Close()
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(2)
	db.SetConnMaxLifetime(100 * time.Millisecond)
	var group sync.WaitGroup
	results := make([]int, 60)
	for i := range results {
		group.Add(1)
		go func() {
			defer group.Done()
			_ = db.QueryRow("SELECT ? + 0", i).Scan(&results[i])
		}()
	}
	group.Wait()
	wrong := 0
	for i, n := range results {
		if i != n {
			wrong++
		}
	}
	fmt.Println("wrong", wrong, db.Ping())
}

func load() {
	path := filepath.Join(os.Getenv("COMPAT_FOLDER"), "go.csv")
	var text strings.Builder
	for n := 0; n < 5000; n++ {
		fmt.Fprintf(&text, "%d,name %d\n", n, n)
	}
	check(os.WriteFile(path, []byte(text.String()), 0o644))
	mysql.RegisterLocalFile(path)
	db := open(nil)
	defer db.Close()
	must(db.Exec("CREATE TABLE loaded (n INT, name VARCHAR(20))"))
	result := must(db.Exec("LOAD DATA LOCAL INFILE '" + path + "' INTO TABLE loaded FIELDS TERMINATED BY ','"))
	fmt.Println(must(result.RowsAffected()))
	rows(db.Query("SELECT COUNT(*), SUM(n) FROM loaded"))
	_, err := db.Exec("LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE loaded")
	fmt.Println(fail(err))
	rows(db.Query("SELECT 'alive'"))
}

func compressed() {
	db := open(func(c *mysql.Config) { check(c.Apply(mysql.EnableCompression(true))) })
	defer db.Close()
	var text string
	check(db.QueryRow("SELECT REPEAT('x', 1000000)").Scan(&text))
	fmt.Println(len(text))
}

func main() {
	steps := []struct {
		name string
		run  func()
	}{
		{"values_prepared", func() { values(false) }}, {"values_interpolated", func() { values(true) }},
		{"transactions", transactions}, {"errors", failures}, {"several", several}, {"statements", statements},
		{"state", state}, {"cancelled", cancelled}, {"pool", pool}, {"load_data_local", load}, {"compressed", compressed},
	}
	for _, step := range steps {
		fmt.Println("==", step.name)
		func() {
			defer func() {
				if err := recover(); err != nil {
					fmt.Println("unexpected:", err)
				}
			}()
			step.run()
		}()
	}
}

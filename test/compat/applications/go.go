package main

import (
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-sql-driver/mysql"
)

// {{settings}}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	db, reports, err := open()
	check(err)
	_, err = db.Exec("CREATE TABLE go (id INT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(20))")
	check(err)
	tx, err := db.Begin()
	check(err)
	_, err = tx.Exec("INSERT INTO go (title) VALUES (?), (?)", "ü🧵", "b")
	check(err)
	check(tx.Commit())
	var count int
	var level string
	check(db.QueryRow("SELECT COUNT(*) FROM go").Scan(&count))
	check(reports.QueryRow("SELECT @@heddle_consistency").Scan(&level))
	_, err = db.Exec("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
	var mysqlError *mysql.MySQLError
	fmt.Println(count, level, errors.As(err, &mysqlError) && mysqlError.Number == 1213)
}

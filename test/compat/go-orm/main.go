// Program compatorm uses gorm and ent's SQL layer (`gorm` or `ent` as its argument) over go-sql-driver/mysql:
// migrations, rows of all kinds, associations, transactions, two pools, errors. It prints what it saw.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-sql-driver/mysql"
)

func config(change func(*mysql.Config)) string {
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
	if change != nil {
		change(config)
	}
	return config.FormatDSN()
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

type step struct {
	name string
	run  func()
}

func main() {
	steps := gormSteps
	if os.Args[1] == "ent" {
		steps = entSteps
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

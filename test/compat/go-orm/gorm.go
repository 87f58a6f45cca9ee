package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Company struct {
	ID   uint
	Name string `gorm:"size:60;uniqueIndex"`
}

type Order struct {
	ID        uint
	Title     string `gorm:"size:100;not null"`
	Price     float64
	Total     string `gorm:"type:decimal(20,6)"`
	Count     uint64
	Data      []byte `gorm:"type:longblob"`
	Note      *string
	When      time.Time `gorm:"precision:6"`
	CompanyID *uint
	Company   *Company
	DeletedAt gorm.DeletedAt `gorm:"index"`
}

var gormSteps = []step{
	{"migrations", gormMigrations}, {"rows", func() { gormRows(false) }}, {"rows_prepared", func() { gormRows(true) }},
	{"transactions", gormTransactions}, {"two_connections", gormTwo}, {"parallel", gormParallel}, {"errors", gormErrors},
}

func openGorm(prepared bool, change func(*driver.Config)) *gorm.DB {
	return must(gorm.Open(mysql.Open(config(change)), &gorm.Config{PrepareStmt: prepared, Logger: logger.Discard, TranslateError: false}))
}

func closeGorm(db *gorm.DB) {
	check(must(db.DB()).Close())
}

func gormMigrations() {
	db := openGorm(false, nil)
	defer closeGorm(db)
	check(db.AutoMigrate(&Company{}, &Order{}))
	check(db.AutoMigrate(&Company{}, &Order{}))
	check(db.Migrator().AlterColumn(&Order{}, "Title"))
}

func gormRows(prepared bool) {
	db := openGorm(prepared, nil)
	defer closeGorm(db)
	check(db.Migrator().DropTable(&Order{}, &Company{}))
	check(db.AutoMigrate(&Company{}, &Order{}))
	fmt.Println(must(db.Migrator().GetTables()), db.Migrator().HasIndex(&Order{}, "DeletedAt"))
	for _, column := range must(db.Migrator().ColumnTypes(&Order{})) {
		length, _ := column.Length()
		nullable, _ := column.Nullable()
		fmt.Println(column.Name(), column.DatabaseTypeName(), length, nullable)
	}
	moment := time.Date(1999, 12, 31, 23, 59, 59, 123456000, time.UTC)
	company := Company{Name: "ü 🧵 'q' \\"}
	order := Order{Title: "big", Price: -1.25e100, Total: "-12345678901234.567890", Count: 18446744073709551615,
		Data: bytes.Repeat([]byte("\x00\xff'\\"), 700_000), When: moment, Company: &company}
	check(db.Create(&order).Error)
	var read Order
	check(db.Preload("Company").First(&read, order.ID).Error)
	fmt.Println(read.Title, read.Price, read.Total, read.Count, len(read.Data), bytes.Equal(read.Data, order.Data), read.Note, read.When, *read.Company)
	many := make([]Order, 0, 300)
	for n := 1; n <= 300; n++ {
		many = append(many, Order{Title: fmt.Sprint("t", n), Price: float64(n), Total: "1", When: moment})
	}
	check(db.CreateInBatches(&many, 100).Error)
	fmt.Println(many[0].ID, many[299].ID)
	var count int64
	check(db.Model(&Order{}).Where("price BETWEEN ? AND ?", 10, 20).Count(&count).Error)
	type sum struct {
		CompanyID *uint
		Total     float64
	}
	var sums []sum
	check(db.Model(&Order{}).Select("company_id, SUM(total) AS total").Group("company_id").Order("company_id").Having("COUNT(*) > ?", 1).Scan(&sums).Error)
	fmt.Println(count, len(sums), sums[0].Total)
	result := db.Model(&Order{}).Where("title LIKE ?", "t1%").Updates(map[string]any{"count": gorm.Expr("count + ?", 2)})
	fmt.Println(result.RowsAffected, result.Error, db.Where("price > ?", 290).Delete(&Order{}).RowsAffected)
	var titles []string
	check(db.Unscoped().Model(&Order{}).Where("deleted_at IS NOT NULL").Order("id").Limit(3).Pluck("title", &titles).Error)
	fmt.Println(titles, db.Unscoped().Where("deleted_at IS NOT NULL").Delete(&Order{}).RowsAffected)
	check(db.Clauses(clause.OnConflict{DoUpdates: clause.Assignments(map[string]any{"name": "renamed"})}).Create(&Company{Name: company.Name}).Error)
	check(db.Clauses(clause.Insert{Modifier: "IGNORE"}).Create(&Company{Name: "renamed"}).Error)
	var names []string
	check(db.Model(&Company{}).Pluck("name", &names).Error)
	fmt.Println(names)
	seen := 0
	check(db.Where("id > 0").FindInBatches(&many, 70, func(*gorm.DB, int) error { seen += len(many); return nil }).Error)
	found := must(db.Model(&Order{}).Select("title").Order("id").Rows())
	defer found.Close()
	for found.Next() {
		seen++
	}
	fmt.Println(seen)
}

func gormTransactions() {
	db := openGorm(true, nil)
	defer closeGorm(db)
	lost := errors.New("roll back")
	fmt.Println(db.Transaction(func(tx *gorm.DB) error {
		check(tx.Create(&Company{Name: "kept"}).Error)
		fmt.Println(tx.Transaction(func(inner *gorm.DB) error {
			check(inner.Create(&Company{Name: "inner"}).Error)
			return lost
		}))
		var found Company
		check(tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&found, "name = ?", "kept").Error)
		fmt.Println(found.Name, db.First(&found, "name = ?", "kept").Error)
		return nil
	}))
	fmt.Println(db.Transaction(func(tx *gorm.DB) error {
		check(tx.Create(&Company{Name: "lost"}).Error)
		return lost
	}))
	tx := db.Begin()
	check(tx.Create(&Company{Name: "one"}).Error)
	check(tx.SavePoint("here").Error)
	check(tx.Create(&Company{Name: "two"}).Error)
	check(tx.RollbackTo("here").Error)
	check(tx.Commit().Error)
	var names []string
	check(db.Model(&Company{}).Order("id").Pluck("name", &names).Error)
	fmt.Println(names)
}

func gormTwo() {
	one, other := openGorm(true, nil), openGorm(true, nil)
	defer closeGorm(one)
	defer closeGorm(other)
	wrong := 0
	for n := range 50 {
		company := Company{Name: fmt.Sprint("w", n)}
		check(one.Create(&company).Error)
		if other.First(&Company{}, company.ID).Error != nil {
			wrong++
		}
	}
	fmt.Println("wrong", wrong)
}

func gormParallel() {
	db := openGorm(true, nil)
	defer closeGorm(db)
	must(db.DB()).SetMaxOpenConns(5)
	var group sync.WaitGroup
	results := make([]bool, 40)
	for n := range results {
		group.Add(1)
		go func() {
			defer group.Done()
			results[n] = db.Transaction(func(tx *gorm.DB) error {
				company := Company{Name: fmt.Sprint("p", n)}
				if err := tx.Create(&company).Error; err != nil {
					return err
				}
				return tx.First(&Company{}, "name = ?", company.Name).Error
			}) == nil
		}()
	}
	group.Wait()
	wrong := 0
	for _, right := range results {
		if !right {
			wrong++
		}
	}
	fmt.Println("wrong", wrong)
}

func gormErrors() {
	db := openGorm(true, nil)
	defer closeGorm(db)
	fmt.Println(fail(db.Create(&Company{Name: "kept"}).Error))
	fmt.Println(fail(db.Exec("SELEC").Error))
	fmt.Println(fail(db.Table("not_there").Find(&[]Company{}).Error))
	missing := uint(4711)
	fmt.Println(fail(db.Create(&Order{Title: "x", Total: "1", When: time.Unix(0, 0), CompanyID: &missing}).Error))
	fmt.Println(fail(db.First(&Order{}, "title = ?", "nobody").Error))
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fmt.Println(errors.Is(db.WithContext(short).Exec("SELECT SLEEP(5)").Error, context.DeadlineExceeded))
	var alive int
	fmt.Println(db.Raw("SELECT ?", 1).Scan(&alive).Error, alive)
	_, err := gorm.Open(mysql.Open(config(func(c *driver.Config) { c.Passwd = "wrong" })), &gorm.Config{Logger: logger.Discard})
	fmt.Println(fail(err))
}

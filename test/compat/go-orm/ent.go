package main

import (
	"context"
	stdsql "database/sql"
	"fmt"

	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/schema"
	"entgo.io/ent/schema/field"
)

var entSteps = []step{{"migrations", entMigrations}, {"rows", entRows}, {"transactions", entTransactions}, {"errors", entErrors}}

var (
	groupColumns = []*schema.Column{{Name: "id", Type: field.TypeInt, Increment: true}, {Name: "name", Type: field.TypeString, Size: 60, Unique: true}}
	groups       = &schema.Table{Name: "groups", Columns: groupColumns, PrimaryKey: groupColumns[:1]}
	userColumns  = []*schema.Column{{Name: "id", Type: field.TypeInt, Increment: true}, {Name: "nick", Type: field.TypeString, Default: "none"},
		{Name: "age", Type: field.TypeInt8, Nullable: true}, {Name: "big", Type: field.TypeUint64}, {Name: "doc", Type: field.TypeJSON, Nullable: true},
		{Name: "image", Type: field.TypeBytes, Size: 1 << 24, Nullable: true}, {Name: "joined", Type: field.TypeTime, Nullable: true},
		{Name: "kind", Type: field.TypeEnum, Enums: []string{"a", "b"}, Default: "a"}, {Name: "group_users", Type: field.TypeInt, Nullable: true}}
	users = &schema.Table{Name: "users", Columns: userColumns, PrimaryKey: userColumns[:1],
		Indexes:     []*schema.Index{{Name: "by_nick", Columns: []*schema.Column{userColumns[1], userColumns[2]}}},
		ForeignKeys: []*schema.ForeignKey{{Symbol: "users_groups", Columns: userColumns[8:9], RefTable: groups, RefColumns: groupColumns[:1], OnDelete: schema.SetNull}}}
)

func openEnt() *sql.Driver {
	return must(sql.Open(dialect.MySQL, config(nil)))
}

func entMigrations() {
	driver := openEnt()
	defer driver.Close()
	ctx := context.Background()
	check(must(schema.NewMigrate(driver)).Create(ctx, groups, users))
	userColumns = append(userColumns, &schema.Column{Name: "later", Type: field.TypeFloat64, Default: 1.5})
	users.Columns = userColumns
	check(must(schema.NewMigrate(driver, schema.WithDropIndex(true), schema.WithDropColumn(true))).Create(ctx, groups, users))
	entPrint(driver, sql.Dialect(dialect.MySQL).Select("COLUMN_NAME", "COLUMN_TYPE", "IS_NULLABLE").From(sql.Table("COLUMNS").Schema("information_schema")).
		Where(sql.EQ("TABLE_NAME", "users")).Where(sql.ExprP("TABLE_SCHEMA = DATABASE()")).OrderBy("ORDINAL_POSITION"))
}

func entExec(driver dialect.ExecQuerier, query interface{ Query() (string, []any) }) stdsql.Result {
	text, arguments := query.Query()
	var result stdsql.Result
	check(driver.Exec(context.Background(), text, arguments, &result))
	return result
}

func entPrint(driver dialect.ExecQuerier, query interface{ Query() (string, []any) }) {
	text, arguments := query.Query()
	var found sql.Rows
	check(driver.Query(context.Background(), text, arguments, &found))
	defer found.Close()
	columns := must(found.Columns())
	for found.Next() {
		row, into := make([]stdsql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		check(found.Scan(into...))
		fmt.Println(row)
	}
	check(found.Err())
}

func entRows() {
	driver := openEnt()
	defer driver.Close()
	my := sql.Dialect(dialect.MySQL)
	group := must(entExec(driver, my.Insert("groups").Columns("name").Values("ü 🧵")).LastInsertId())
	insert := my.Insert("users").Columns("nick", "age", "big", "doc", "image", "group_users")
	for n := range 200 {
		insert.Values(fmt.Sprint("n", n), n%100, uint64(18446744073709551615), `{"a": [1, null]}`, []byte("\x00\xff"), group)
	}
	fmt.Println(must(entExec(driver, insert).RowsAffected()))
	u, g := my.Select().From(sql.Table("users").As("u")), sql.Table("groups").As("g")
	entPrint(driver, u.Select(u.C("nick"), u.C("big"), u.C("doc"), g.C("name")).Join(g).On(u.C("group_users"), g.C("id")).
		Where(sql.And(sql.GT(u.C("age"), 97), sql.HasPrefix(u.C("nick"), "n1"))).OrderBy(u.C("id")))
	entPrint(driver, my.Select("kind", sql.Count("*"), sql.Sum("age")).From(sql.Table("users")).GroupBy("kind").Having(sql.GT("COUNT(*)", 1)))
	fmt.Println(must(entExec(driver, my.Update("users").Set("kind", "b").Add("age", 1).Where(sql.In("nick", "n1", "n2"))).RowsAffected()))
	fmt.Println(must(entExec(driver, my.Insert("groups").Columns("name").Values("ü 🧵").OnConflict(sql.ResolveWithNewValues())).RowsAffected()))
	fmt.Println(must(entExec(driver, my.Delete("users").Where(sql.GTE("age", 90))).RowsAffected()))
	entPrint(driver, my.Select("nick").From(sql.Table("users")).OrderBy(sql.Desc("id")).Limit(2).Offset(1))
}

func entTransactions() {
	driver := openEnt()
	defer driver.Close()
	my, ctx := sql.Dialect(dialect.MySQL), context.Background()
	tx := must(driver.Tx(ctx))
	entExec(tx, my.Insert("groups").Columns("name").Values("kept"))
	entPrint(tx, my.Select("name").From(sql.Table("groups")).Where(sql.EQ("name", "kept")).ForUpdate())
	check(tx.Commit())
	tx = must(driver.BeginTx(ctx, &stdsql.TxOptions{Isolation: stdsql.LevelSerializable}))
	entExec(tx, my.Insert("groups").Columns("name").Values("lost"))
	check(tx.Rollback())
	entPrint(driver, my.Select("name").From(sql.Table("groups")).OrderBy("id"))
}

func entErrors() {
	driver := openEnt()
	defer driver.Close()
	my, ctx := sql.Dialect(dialect.MySQL), context.Background()
	for _, query := range []interface{ Query() (string, []any) }{
		my.Insert("groups").Columns("name").Values("kept"), my.Insert("users").Columns("big", "group_users").Values(1, 4711),
		my.Delete("not_there"), my.Update("users").Set("nothing", 1),
	} {
		text, arguments := query.Query()
		fmt.Println(fail(driver.Exec(ctx, text, arguments, nil)))
	}
}

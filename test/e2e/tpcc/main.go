// go-tpc's TPC-C with its statements as texts or prepared, and its transactions counted by their end.
//
// The statements, the rows and the checks are those of the package; its own program can only prepare.
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/go-tpc/pkg/workload"
	"github.com/pingcap/go-tpc/tpcc"
)

// Errors after which an application runs its transaction again: a deadlock, a lock waited for too long.
var retryable = regexp.MustCompile(`Error (1213|1205)\b`)

// textDriver runs prepared statements as texts, with the values written into them.
type textDriver struct{ mysql.MySQLDriver }

func (d textDriver) Open(dsn string) (driver.Conn, error) {
	inner, err := d.MySQLDriver.Open(dsn)
	if err != nil {
		return nil, err
	}
	return &textConn{inner.(connection)}, nil
}

// connection is what the driver's own connections can do.
type connection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

type textConn struct{ connection }

func (c *textConn) Prepare(query string) (driver.Stmt, error) {
	return &textStmt{c, query}, nil
}

type textStmt struct {
	conn  *textConn
	query string
}

func (s *textStmt) Close() error  { return nil }
func (s *textStmt) NumInput() int { return -1 }

func (s *textStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (s *textStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }

func (s *textStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

func (s *textStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

// outcome is what one action came to.
type outcome struct {
	Done     int            `json:"done"`
	Retried  int            `json:"retryable"`
	Failures map[string]int `json:"failures"`
	Seconds  float64        `json:"seconds"`
}

type tally struct {
	sync.Mutex
	outcome
}

func (t *tally) add(err error) {
	t.Lock()
	defer t.Unlock()
	switch {
	case err == nil:
		t.Done++
	case retryable.MatchString(err.Error()):
		t.Retried++
	default:
		t.Failures[err.Error()]++
	}
}

// act runs one action on all threads.
func act(work workload.Workloader, action string, threads int, until time.Duration) outcome {
	count := &tally{outcome: outcome{Failures: map[string]int{}}}
	begun := time.Now()
	var all sync.WaitGroup
	for thread := range threads {
		all.Add(1)
		go func() {
			defer all.Done()
			ctx := work.InitThread(context.Background(), thread)
			defer work.CleanupThread(ctx, thread)
			switch action {
			case "prepare":
				count.add(work.Prepare(ctx, thread))
			case "check":
				// The condition that it leaves out, 3.3.2.11, holds until the first delivery only.
				count.add(work.Check(ctx, thread))
			case "check-loaded":
				count.add(work.CheckPrepare(ctx, thread))
			default:
				for time.Since(begun) < until {
					count.add(work.Run(ctx, thread))
				}
			}
		}()
	}
	all.Wait()
	count.Seconds = time.Since(begun).Seconds()
	return count.outcome
}

func main() {
	address := flag.String("address", "127.0.0.1:6306", "where the servers or Heddle listen")
	database := flag.String("database", "tpcc", "the database")
	warehouses := flag.Int("warehouses", 4, "warehouses; `prepare` without any makes the tables and the items")
	threads := flag.Int("threads", 4, "connections")
	seconds := flag.Int("seconds", 60, "how long `run` runs")
	text := flag.Bool("text", false, "statements as texts instead of prepared ones")
	flag.Parse()
	action := flag.Arg(0)
	switch action {
	case "prepare", "check-loaded", "run", "check":
	default:
		fmt.Fprintln(os.Stderr, "tpcc: say prepare, check-loaded, run or check")
		os.Exit(2)
	}
	name := "mysql"
	if *text {
		sql.Register("text", textDriver{})
		name = "text"
	}
	db, err := sql.Open(name, fmt.Sprintf("root@tcp(%s)/%s?interpolateParams=%t", *address, *database, *text))
	if err != nil {
		fmt.Fprintln(os.Stderr, "tpcc:", err)
		os.Exit(1)
	}
	db.SetMaxIdleConns(2 * *threads)
	// What the package says of each step is for people who watch; the outcome alone goes to stdout.
	stdout := os.Stdout
	os.Stdout = os.Stderr
	work, err := tpcc.NewWorkloader(db, &tpcc.Config{
		Driver: "mysql", DBName: *database, Threads: *threads, PartitionType: tpcc.PartitionTypeHash,
		Warehouses: *warehouses, MaxMeasureLatency: time.Minute,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "tpcc:", err)
		os.Exit(1)
	}
	outcome := act(work, action, *threads, time.Duration(*seconds)*time.Second)
	if action == "run" {
		work.OutputStats(true)
	}
	if err := json.NewEncoder(stdout).Encode(outcome); err != nil {
		os.Exit(1)
	}
}

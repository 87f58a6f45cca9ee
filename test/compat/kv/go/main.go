// Program kv uses gomemcache as Go services do: pooled connections, many goroutines, cas, many keys. It
// prints what it saw, step by step.
package main

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

func step(name string) { fmt.Println("== " + name) }

// said is what an error is called, without the address in it.
func said(err error) string {
	for _, known := range []error{memcache.ErrCacheMiss, memcache.ErrCASConflict, memcache.ErrNotStored, memcache.ErrMalformedKey} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "error " + strings.SplitN(err.Error(), ":", 2)[0]
	}
	return "ok"
}

func value(c *memcache.Client, key string) string {
	item, err := c.Get(key)
	if err != nil {
		return said(err)
	}
	return fmt.Sprintf("%q %d", item.Value, item.Flags)
}

func main() {
	c := memcache.New(os.Getenv("KV_HOST") + ":" + os.Getenv("KV_PORT"))
	c.MaxIdleConns = 16
	step("basics")
	fmt.Println(said(c.FlushAll()), said(c.Ping()), value(c, "a"))
	fmt.Println(said(c.Set(&memcache.Item{Key: "a", Value: []byte("v\x00\xff"), Flags: 7, Expiration: 60})), value(c, "a"))
	fmt.Println(said(c.Add(&memcache.Item{Key: "a", Value: []byte("x")})), said(c.Replace(&memcache.Item{Key: "none", Value: []byte("x")})))
	fmt.Println(said(c.Append(&memcache.Item{Key: "a", Value: []byte("!")})), said(c.Prepend(&memcache.Item{Key: "a", Value: []byte("?")})), value(c, "a"))
	fmt.Println(said(c.Append(&memcache.Item{Key: "none", Value: []byte("!")})), said(c.Touch("a", 100)), said(c.Touch("none", 100)))
	item, err := c.GetAndTouch("a", 5)
	fmt.Println(string(item.Value), said(err), said(c.Delete("a")), said(c.Delete("a")))
	step("numbers")
	c.Set(&memcache.Item{Key: "n", Value: []byte("5")})
	up, err := c.Increment("n", 10)
	down, other := c.Decrement("n", 100)
	_, none := c.Increment("none", 1)
	c.Set(&memcache.Item{Key: "t", Value: []byte("text")})
	_, text := c.Increment("t", 1)
	fmt.Println(up, said(err), down, said(other), said(none), text)
	step("versions")
	c.Set(&memcache.Item{Key: "v", Value: []byte("one")})
	mine, _ := c.Get("v")
	mine.Value = []byte("two")
	fmt.Println(said(c.CompareAndSwap(mine)), said(c.CompareAndSwap(mine)), value(c, "v"))
	step("many")
	keys := make([]string, 500)
	for i := range keys {
		keys[i] = fmt.Sprintf("m%d", i)
		if i%2 == 0 {
			c.Set(&memcache.Item{Key: keys[i], Value: []byte(keys[i])})
		}
	}
	found, err := c.GetMulti(keys)
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println(len(names), names[0], string(found[names[0]].Value), said(err))
	step("together")
	c.Set(&memcache.Item{Key: "sum", Value: []byte("0")})
	var wait sync.WaitGroup
	for range [16]int{} {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := 0; i < 50; i++ {
				if _, err := c.Increment("sum", 1); err != nil {
					fmt.Println(err)
				}
			}
		}()
	}
	wait.Wait()
	fmt.Println(value(c, "sum"))
	step("limits")
	fmt.Println(said(c.Set(&memcache.Item{Key: strings.Repeat("k", 251), Value: []byte("x")})), said(c.Set(&memcache.Item{Key: "a b"})))
	large := []byte(strings.Repeat("x", 1000000))
	fmt.Println(said(c.Set(&memcache.Item{Key: "large", Value: large})), len(value(c, "large")))
	fmt.Println(said(c.Set(&memcache.Item{Key: "more", Value: append(large, large...)})), value(c, "more"), said(c.DeleteAll()), value(c, "large"))
}

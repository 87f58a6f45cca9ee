package kv;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.exception.MemcachedException;
import net.rubyeye.xmemcached.utils.AddrUtil;

/** xmemcached: a pool of connections, merged gets, counters, cas operations that repeat themselves. */
public final class X {
  static void step(String name) {
    System.out.println("== " + name);
  }

  public static void main(String[] none) throws Exception {
    String address = System.getenv("KV_HOST") + ":" + System.getenv("KV_PORT");
    XMemcachedClientBuilder builder = new XMemcachedClientBuilder(AddrUtil.getAddresses(address));
    builder.setConnectionPoolSize(3);
    MemcachedClient c = builder.build();
    c.setOpTimeout(10_000);
    try {
      step("basics");
      c.flushAll();
      System.out.println(c.get("a") + " " + c.set("a", 60, "text") + " " + c.get("a") + " " + c.add("a", 0, "x") + " " + c.replace("b", 0, "x"));
      System.out.println(c.append("a", "!") + " " + c.prepend("a", "?") + " " + c.get("a") + " " + c.touch("a", 70));
      System.out.println(c.delete("a") + " " + c.delete("a"));
      step("numbers");
      System.out.println(c.incr("i", 5, 100) + " " + c.incr("i", 5, 100) + " " + c.decr("i", 1000) + " " + c.getCounter("i", 3).incrementAndGet());
      step("versions");
      c.set("v", 0, "one");
      GetsResponse<String> mine = c.gets("v");
      System.out.println(c.cas("v", 0, "two", mine.getCas()) + " " + c.cas("v", 0, "three", mine.getCas()) + " " + c.get("v"));
      step("many");
      List<String> keys = new ArrayList<>();
      for (int i = 0; i < 500; i++) {
        keys.add("m" + i);
        c.setWithNoReply("m" + i, 100, "value " + i);
      }
      for (String key : keys) {
        // Silent sets of one connection may be behind the gets of another.
        while (c.get(key) == null) {
          Thread.onSpinWait();
        }
      }
      Map<String, String> found = new TreeMap<>(c.get(keys));
      System.out.println(found.size() + " " + found.get("m499"));
      step("together");
      c.set("sum", 0, "0");
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 8; t++) {
        Thread thread = new Thread(() -> {
          try {
            for (int i = 0; i < 50; i++) {
              c.incr("sum", 1);
            }
          } catch (Exception error) {
            System.out.println(error);
          }
        });
        threads.add(thread);
        thread.start();
      }
      for (Thread thread : threads) {
        thread.join();
      }
      System.out.println(c.get("sum").toString().trim());
      step("errors");
      c.set("t", 0, "text");
      try {
        System.out.println(c.incr("t", 1));
      } catch (MemcachedException error) {
        System.out.println("refused");
      }
      System.out.println(c.getVersions().size() + " " + c.getStats().size());
    } finally {
      c.shutdown();
    }
  }
}

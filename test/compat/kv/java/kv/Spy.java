package kv;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASValue;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;

/** spymemcached over the text protocol: one connection, everything asynchronous and pipelined. */
public final class Spy {
  static void step(String name) {
    System.out.println("== " + name);
  }

  public static void main(String[] none) throws Exception {
    java.util.logging.Logger.getLogger("net.spy").setLevel(java.util.logging.Level.OFF);
    System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
    String address = System.getenv("KV_HOST") + ":" + System.getenv("KV_PORT");
    List<InetSocketAddress> addresses = AddrUtil.getAddresses(address);
    MemcachedClient c = new MemcachedClient(new DefaultConnectionFactory(), addresses);
    try {
      step("basics");
      System.out.println(c.flush().get() + " " + c.get("a") + " " + c.set("a", 60, "text").get() + " " + c.get("a"));
      System.out.println(c.add("a", 0, "x").get() + " " + c.replace("b", 0, "x").get() + " " + c.set("n", 0, 42).get() + " " + c.get("n"));
      System.out.println(c.delete("a").get() + " " + c.delete("a").get() + " " + c.touch("n", 50).get() + " " + c.touch("a", 50).get());
      step("numbers");
      System.out.println(c.set("i", 0, "5").get() + " " + c.incr("i", 10) + " " + c.decr("i", 100) + " " + c.incr("none", 1) + " " + c.incr("made", 1, 7));
      step("versions");
      c.set("v", 0, "one").get();
      CASValue<Object> mine = c.gets("v");
      System.out.println(c.cas("v", mine.getCas(), "two") + " " + c.cas("v", mine.getCas(), "three") + " " + c.get("v") + " " + c.cas("a", 5, "x"));
      System.out.println(c.append(0, "v", "!").get() + " " + c.prepend(0, "v", "?").get() + " " + c.get("v"));
      step("many");
      List<Future<Boolean>> stored = new ArrayList<>();
      List<String> keys = new ArrayList<>();
      for (int i = 0; i < 2000; i++) {
        keys.add("m" + i);
        stored.add(c.set("m" + i, 100, "value " + i));
      }
      int good = 0;
      for (Future<Boolean> one : stored) {
        good += one.get() ? 1 : 0;
      }
      Map<String, Object> found = new TreeMap<>(c.getBulk(keys));
      System.out.println(good + " " + found.size() + " " + found.get("m1999"));
      step("objects");
      byte[] large = new byte[700_000];
      new java.util.Random(1).nextBytes(large);
      System.out.println(c.set("large", 0, large).get() + " " + java.util.Arrays.equals(large, (byte[]) c.get("large")));
      System.out.println(c.getStats().size() + " " + c.getVersions().size());
    } finally {
      c.shutdown();
    }
  }
}

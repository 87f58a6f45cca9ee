// Makes a topic, or prints its records as they are: one line with partition, key and value, separated by tabs.

import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Topic {
    public static void main(String[] args) throws Exception {
        Map<String, Object> options = new HashMap<>(Map.of("bootstrap.servers", args[1]));
        if (args[0].equals("create")) {
            try (Admin admin = Admin.create(options)) {
                int partitions = Integer.parseInt(args[3]);
                admin.createTopics(List.of(new NewTopic(args[2], partitions, (short) 1))).all().get();
            }
            return;
        }
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(options, text, text)) {
            List<TopicPartition> all = new ArrayList<>();
            consumer.partitionsFor(args[2]).forEach(it -> all.add(new TopicPartition(args[2], it.partition())));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            while (all.stream().anyMatch(it -> consumer.position(it) < ends.get(it))) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    String id = new String(record.headers().lastHeader("heddle-id").value());
                    System.out.println(record.partition() + "\t" + record.key() + "\t" + id + "\t" + record.value());
                }
            }
        }
    }
}

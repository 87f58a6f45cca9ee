require 'bigdecimal'
require 'logger'
require 'yaml'
require 'active_record'

CONFIGURATION = YAML.safe_load(<<'SETTINGS', aliases: true)
# {{settings}}
SETTINGS

class Record < ActiveRecord::Base
  self.abstract_class = true
end

class Fruit < ActiveRecord::Base
end

settings = CONFIGURATION['production']
ActiveRecord::Base.establish_connection(settings['primary'])
Record.establish_connection(settings['reports'])
ActiveRecord::Base.connection.create_table(:fruits) { |t| t.string :title }
Fruit.transaction { ['ü🧵', 'b'].each { |title| Fruit.create!(title: title) } }
count = Thread.new { Fruit.count }.value
again = begin
  Fruit.transaction { Fruit.connection.execute("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213") }
rescue ActiveRecord::Deadlocked
  true
end
puts "#{count} #{Record.connection.select_value('SELECT @@heddle_consistency')} #{again}"

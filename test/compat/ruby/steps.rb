# What the Ruby programs share: where to connect, and steps whose output is compared.

SETTINGS = { host: ENV['COMPAT_HOST'], port: Integer(ENV['COMPAT_PORT']), username: ENV['COMPAT_USER'],
             password: ENV['COMPAT_PASSWORD'], database: ENV['COMPAT_DATABASE'], encoding: 'utf8mb4' }.freeze

$stdout.sync = true

def say(*words)
  puts words.map { |word| shown(word) }.join(' ')
end

def shown(word)
  case word
  when String then word.encoding == Encoding::BINARY || !word.valid_encoding? ? "0x#{word.unpack1('H*')}" : word.inspect
  when Time then word.utc.strftime('%F %T.%6N')
  when Array then "[#{word.map { |one| shown(one) }.join(', ')}]"
  when Hash then "{#{word.map { |key, value| "#{shown(key)} => #{shown(value)}" }.join(', ')}}"
  when BigDecimal then word.to_s('F')
  else word.inspect
  end
end

# An error that a step does not expect is part of the comparison.
def step(name)
  puts "== #{name}"
  yield
rescue StandardError => e
  puts "unexpected: #{e.class} #{e.message}"
end

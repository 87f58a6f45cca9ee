# ActiveRecord over mysql2: migrations, associations, query caches, nested transactions, locks, its pool.
require 'bigdecimal'
require 'logger'
require 'active_record'
require_relative 'steps'

ActiveRecord::Base.establish_connection(SETTINGS.merge(adapter: 'mysql2', pool: 5, prepared_statements: true))
ActiveRecord::Base.logger = nil
ActiveRecord.default_timezone = :utc if ActiveRecord.respond_to?(:default_timezone=)
ActiveRecord::Migration.verbose = false

class Make < ActiveRecord::Migration[6.1]
  def change
    create_table(:authors) do |t|
      t.string :name, limit: 60, null: false
      t.timestamps default: '2024-02-29 12:00:00'
    end
    create_table(:books) do |t|
      t.references :author, foreign_key: true
      t.string :title
      t.decimal :price, precision: 12, scale: 3
      t.json :extra
      t.binary :cover, limit: 16_000_000
      t.datetime :out, precision: 6
      t.integer :lock_version, default: 0
    end
    add_index :authors, :name, unique: true
    add_column :books, :pages, :bigint, default: 1
    change_column_null :books, :pages, true
  end
end

class Author < ActiveRecord::Base
  has_many :books
  validates :name, presence: true
end

class Book < ActiveRecord::Base
  attribute :extra, :json # MariaDB's own type is a text.
  belongs_to :author, optional: true
end

def told
  yield
  say 'no error'
rescue ActiveRecord::ActiveRecordError => e
  say e.class, e.message
end

step 'migrations' do
  Make.migrate(:up)
  Make.migrate(:down)
  Make.migrate(:up)
  connection = ActiveRecord::Base.connection
  say connection.tables.sort, connection.mariadb?, connection.supports_json?
  say Book.columns.map { |column| [column.name, column.sql_type, column.null, column.default] }
  say connection.indexes(:books).map { |index| [index.name, index.columns] }, connection.foreign_keys(:books).map(&:to_table)
end

step 'rows' do
  author = Author.create!(name: 'Ünal 🧵')
  book = author.books.create!(title: "a 'b' \\ ?", price: '12.5', extra: { a: [1, nil] }, cover: "\0\xFF".b * 1_000_000,
                              out: Time.utc(1999, 12, 31, 23, 59, 59, 123_456))
  book = Book.find(book.id)
  say book.title, book.price, book.extra, book.cover.bytesize, book.out, book.author.name
  Book.insert_all((1..300).map { |n| { title: "t#{n}", price: n, author_id: n.odd? ? author.id : nil } })
  say Book.count, Book.sum(:price), Book.group(:author_id).order(:author_id).count, Book.where(price: 5..8).pluck(:title, :price)
  say Book.where(author: nil).where('title LIKE ?', 't1%').update_all('price = price + 1'), Book.where('price > 290').delete_all
  say Author.upsert({ id: author.id, name: 'Ünal 2' }).to_a, author.reload.name
  say Book.includes(:author).order(:id).limit(2).map { |one| one.author&.name }, Book.joins(:author).distinct.count(:author_id)
  say Book.in_batches(of: 100).map(&:size), Book.find_each(batch_size: 70).count
  say Author.connection.select_all('SELECT 1 AS a, NULL AS b').to_a, Book.exists?(title: 't7'), Book.order(:id).last.title
end

step 'transactions' do
  Author.transaction(isolation: :read_committed) { Author.create!(name: 'kept') }
  Author.transaction do
    Author.create!(name: 'lost')
    raise ActiveRecord::Rollback
  end
  Author.transaction do
    Author.create!(name: 'outer')
    Author.transaction(requires_new: true) do
      Author.create!(name: 'inner')
      raise ActiveRecord::Rollback
    end
    say Author.lock.find_by(name: 'outer').name
  end
  say Author.order(:id).pluck(:name)
  one, other = Book.find_by(title: 't3'), Book.find_by(title: 't3')
  one.update!(title: 'first')
  told { other.update!(title: 'second') }
  one.with_lock { one.update!(title: 't3') }
  say one.lock_version
end

step 'threads' do
  threads = Array.new(4) do |t|
    Thread.new do
      ActiveRecord::Base.connection_pool.with_connection do
        (1..15).count { |n| Author.find(Author.create!(name: "w#{t}-#{n}").id).name != "w#{t}-#{n}" }
      end
    end
  end
  say 'wrong', threads.sum(&:value), Author.where('name LIKE ?', 'w%').count
end

step 'two_connections' do
  wrong = (1..40).count do |n|
    id = Author.create!(name: "x#{n}").id
    Thread.new { ActiveRecord::Base.connection_pool.with_connection { Author.where(id: id).count } }.value != 1
  end
  say 'wrong', wrong
end

step 'caches_and_reconnects' do
  Author.cache { say [Author.count, Author.count].uniq.size }
  ActiveRecord::Base.connection.execute('SET @mine = 1')
  ActiveRecord::Base.connection.reset!
  say ActiveRecord::Base.connection.select_value('SELECT @mine'), ActiveRecord::Base.connection.active?
  ActiveRecord::Base.connection.reconnect!
  say Author.find_by(name: 'kept').name, ActiveRecord::Base.connection.get_advisory_lock('heddle'), ActiveRecord::Base.connection.release_advisory_lock('heddle')
end

step 'errors' do
  told { Author.create!(name: 'kept') }
  told { Author.create!(name: nil) }
  told { Author.connection.execute('SELEC') }
  told { Author.connection.execute('SELECT * FROM not_there') }
  told { Book.create!(title: 'x', author_id: 4711) }
  told { Author.new(name: 'x' * 100).save!(validate: false) }
  told { Author.find(4711) }
end

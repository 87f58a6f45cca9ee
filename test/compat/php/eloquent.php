<?php
// Laravel's Eloquent over PDO: migrations, models with relations and casts, chunks, transactions, locks.
require __DIR__ . '/steps.php';
require 'Illuminate/Database/autoload.php';

use Illuminate\Database\Capsule\Manager;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Database\Eloquent\SoftDeletes;
use Illuminate\Database\QueryException;
use Illuminate\Database\Schema\Blueprint;

$manager = new Manager();
$at = ['driver' => 'mysql', 'host' => setting('HOST'), 'port' => setting('PORT'), 'database' => setting('DATABASE'), 'username' => setting('USER'), 'password' => setting('PASSWORD'),
    'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci', 'strict' => true, 'timezone' => '+00:00',
    'options' => setting('TLS') ? [PDO::MYSQL_ATTR_SSL_CA => '/dev/null', PDO::MYSQL_ATTR_SSL_VERIFY_SERVER_CERT => false] : []];
foreach (['default' => [], 'other' => [], 'emulated' => ['options' => [PDO::ATTR_EMULATE_PREPARES => true] + $at['options']], 'wrong' => ['password' => 'wrong']] as $name => $more) {
    $manager->addConnection($more + $at, $name);
}
$manager->setAsGlobal();
$manager->bootEloquent();

class Author extends Model
{
    protected $guarded = [];

    public function books()
    {
        return $this->hasMany(Book::class);
    }
}

class Book extends Model
{
    use SoftDeletes;

    public $timestamps = false;
    protected $guarded = [];
    protected $casts = ['extra' => 'array', 'out' => 'datetime:Y-m-d H:i:s', 'sold' => 'boolean'];

    public function author()
    {
        return $this->belongsTo(Author::class);
    }
}

function told(callable $what): void
{
    try {
        $what();
        say('no error');
    } catch (QueryException $error) {
        say($error->getCode(), $error->errorInfo);
    } catch (Throwable $error) {
        say(get_class($error), $error->getMessage());
    }
}

run([
    'migrations' => function () {
        $schema = Manager::schema();
        $schema->create('authors', function (Blueprint $table) {
            $table->id();
            $table->string('name', 60)->unique();
            $table->timestamps();
        });
        $schema->create('books', function (Blueprint $table) {
            $table->id();
            $table->foreignId('author_id')->nullable()->constrained();
            $table->string('title');
            $table->decimal('price', 20, 6)->nullable()->index();
            $table->json('extra')->nullable();
            $table->binary('cover')->nullable();
            $table->dateTime('out', 6)->nullable();
            $table->boolean('sold')->default(false);
            $table->enum('kind', ['a', 'b'])->default('a');
            $table->softDeletes();
        });
        $schema->table('books', fn (Blueprint $table) => $table->integer('pages')->default(1)->after('title'));
        say($schema->hasTable('books'), $schema->hasColumns('books', ['pages', 'kind']), $schema->getColumnListing('books'), $schema->hasTable('not_there'));
    },
    'rows' => function () {
        $author = Author::create(['name' => 'ü 🧵']);
        $book = $author->books()->create(['title' => "a 'b' \\ ?", 'price' => '-12345678901234.567890', 'extra' => ['a' => [1, null, 'ü']], 'cover' => str_repeat("\0\xff", 30000),
            'out' => '1999-12-31 23:59:59', 'sold' => true]);
        $read = Book::with('author')->find($book->id);
        say($read->title, $read->price, $read->extra, md5($read->cover), (string) $read->out, $read->sold, $read->author->name);
        Book::insert(array_map(fn ($n) => ['title' => "t$n", 'price' => $n, 'author_id' => $n % 2 ? $author->id : null], range(1, 300)));
        say(Book::count(), Book::sum('price'), Book::selectRaw('author_id, COUNT(*) AS n')->groupBy('author_id')->orderBy('author_id')->pluck('n'));
        say(Book::whereBetween('price', [5, 8])->whereNull('author_id')->orderBy('id')->pluck('price', 'title'), Book::whereHas('author', fn ($query) => $query->where('name', 'like', 'ü%'))->count());
        say(Book::where('title', 'like', 't1%')->increment('pages', 2), Book::where('price', '>', 290)->delete(), Book::onlyTrashed()->count(), Book::onlyTrashed()->forceDelete());
        say(Author::upsert([['name' => 'ü 🧵'], ['name' => 'second']], ['name'], ['name']), Author::updateOrCreate(['name' => 'second'], ['name' => 'renamed'])->wasRecentlyCreated);
        $seen = 0;
        Book::orderBy('id')->chunkById(70, function ($books) use (&$seen) {
            $seen += $books->count();
        });
        say($seen, Book::orderBy('id')->cursor()->count(), Book::orderBy('id')->forPage(2, 10)->pluck('title')->last(), Book::where('extra->a', '!=', null)->count());
        say(Manager::select('SELECT ? AS a, ? AS b', [1, 'x']), Manager::connection('emulated')->select('SELECT ? AS a, ? AS b', [1, 'x']));
    },
    'transactions' => function () {
        Manager::connection()->transaction(function () {
            Author::create(['name' => 'kept']);
            told(fn () => Manager::connection()->transaction(function () {
                Author::create(['name' => 'inner']);
                throw new RuntimeException('inner only');
            }));
            say(Author::where('name', 'kept')->lockForUpdate()->first()->name, Author::on('other')->where('name', 'kept')->count());
        }, 3);
        told(fn () => Manager::connection()->transaction(function () {
            Author::create(['name' => 'lost']);
            throw new RuntimeException('roll back');
        }));
        say(Author::orderBy('id')->pluck('name'));
    },
    'two_connections' => function () {
        $wrong = 0;
        for ($n = 0; $n < 50; $n++) {
            $id = Author::create(['name' => "w$n"])->id;
            $wrong += Author::on('other')->find($id) === null;
        }
        say('wrong', $wrong);
    },
    'reconnects' => function () {
        Manager::statement('SET @mine = 1');
        Manager::connection()->reconnect();
        say(Manager::select('SELECT @mine AS mine, @@time_zone AS zone, @@sql_mode AS mode'), Author::count() > 0);
    },
    'errors' => function () {
        told(fn () => Author::create(['name' => 'kept']));
        told(fn () => Manager::statement('SELEC'));
        told(fn () => Manager::table('not_there')->get());
        told(fn () => Book::create(['title' => 'x', 'author_id' => 4711]));
        told(fn () => Author::create(['name' => str_repeat('x', 100)]));
        told(fn () => Author::findOrFail(4711));
        told(fn () => Manager::connection('wrong')->select('SELECT 1'));
    },
]);

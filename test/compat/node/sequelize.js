// Sequelize over mysql2: models and migrations, includes, transactions, hooks of the pool, errors.
'use strict';
const { Sequelize, DataTypes, Op, QueryTypes, Transaction } = require('sequelize');
const { settings, say, run, sequence } = require('./steps');

const open = (options) => new Sequelize(settings.database, settings.user, settings.password, {
  host: settings.host, port: settings.port, dialect: 'mysql', logging: false,
  dialectOptions: { charset: 'utf8mb4', ...(settings.ssl ? { ssl: settings.ssl } : {}) }, pool: { max: 4 }, ...options,
});
const db = open();
const when = new Date(Date.UTC(2024, 1, 29, 12, 30, 15));
const Author = db.define('author', { name: { type: DataTypes.STRING(40), unique: true }, bio: DataTypes.TEXT },
  { timestamps: false, charset: 'utf8mb4' });
const Book = db.define('book', {
  title: { type: DataTypes.STRING, allowNull: false }, price: DataTypes.DECIMAL(10, 2), extra: DataTypes.JSON,
  cover: DataTypes.BLOB('long'), sold: { type: DataTypes.BIGINT, defaultValue: 0 }, out: DataTypes.DATE(3),
}, { timestamps: false, version: true });
Author.hasMany(Book);
Book.belongsTo(Author);
const plain = (rows) => rows.map((row) => row.get({ plain: true }));
const told = (error) => say(error.name, error.parent && error.parent.errno, error.message, error.fields);

run({
  async connects() {
    await db.authenticate();
    say(await db.query('SELECT DATABASE() AS db, @@autocommit AS auto', { type: QueryTypes.SELECT }));
  },
  async migrations() {
    await db.sync({ force: true });
    const schema = db.getQueryInterface();
    await schema.addColumn('books', 'pages', { type: DataTypes.INTEGER, defaultValue: 1 });
    await schema.addIndex('books', ['title', 'price'], { name: 'by_title' });
    await schema.changeColumn('books', 'pages', { type: DataTypes.BIGINT, allowNull: true });
    say((await schema.showAllTables()).sort(), await schema.describeTable('books'));
    say((await schema.showIndex('books')).map((index) => [index.name, index.unique, index.fields.map((f) => f.attribute)]));
    await schema.removeColumn('books', 'pages');
    await db.sync({ alter: true });
  },
  async rows() {
    const author = await Author.create({ name: 'Ünal 🧵', bio: 'x'.repeat(60000) });
    const book = await author.createBook({ title: "a 'b' \\ ?", price: '12.50', extra: { a: [1, null, 'ü'] },
      cover: Buffer.alloc(2_000_000, 7), out: when });
    say(author.id, book.id, book.version);
    const [read] = await Book.findAll({ where: { title: book.title }, include: Author });
    say(read.price, read.extra, read.cover.length, read.cover[99], read.out, read.author.name, read.author.bio.length);
    await Book.bulkCreate(sequence(300).map((n) => ({ title: `t${n}`, price: n, authorId: n % 2 ? author.id : null })));
    say(await Book.count(), await Book.sum('price'), await Book.max('title'));
    say(plain(await Book.findAll({ attributes: ['authorId', [db.fn('COUNT', '*'), 'n']], group: 'authorId', order: ['authorId'] })));
    say(plain(await Book.findAll({ attributes: ['title'], where: { price: { [Op.between]: [5, 8] }, authorId: { [Op.is]: null } }, order: ['id'] })));
    say(await Book.update({ sold: db.literal('sold + 2') }, { where: { title: { [Op.like]: 't1%' } } }));
    say(await Book.increment({ sold: 5 }, { where: { title: 't10' } }), (await Book.findOne({ where: { title: 't10' } })).sold);
    say(await Book.destroy({ where: { price: { [Op.gt]: 290 } } }));
    say(await Author.upsert({ id: author.id, name: 'Ünal 2' }), (await Author.findByPk(author.id)).name);
    const page = await Book.findAndCountAll({ limit: 3, offset: 2, order: [['id', 'DESC']], attributes: ['title'] });
    say(page.count, plain(page.rows));
    say(await db.query('SELECT ? + :n AS sum'.replace('?', '1'), { replacements: { n: 2 }, type: QueryTypes.SELECT }));
    say(await db.query('SELECT title FROM books WHERE price = ? AND title <> ?', { bind: [7, 'x'], type: QueryTypes.SELECT }).catch(told));
  },
  async transactions() {
    const at = { isolationLevel: Transaction.ISOLATION_LEVELS.READ_COMMITTED };
    await db.transaction(at, async (transaction) => {
      const author = await Author.create({ name: 'kept' }, { transaction });
      say((await Author.findByPk(author.id, { transaction, lock: transaction.LOCK.UPDATE })).name, await Author.findByPk(author.id));
    });
    await db.transaction(async (transaction) => {
      await Author.create({ name: 'lost' }, { transaction });
      throw new Error('roll back');
    }).catch((error) => say(error.message));
    const outer = await db.transaction();
    await Author.create({ name: 'outer' }, { transaction: outer });
    const inner = await db.transaction({ transaction: outer });
    await Author.create({ name: 'inner' }, { transaction: inner });
    await inner.rollback();
    await outer.commit();
    say((await Author.findAll({ order: ['id'] })).map((author) => author.name));
  },
  async two_connections() {
    const other = open({ pool: { max: 1 } });
    let wrong = 0;
    for (const n of sequence(50)) {
      await Author.create({ name: `w${n}` });
      const [{ found }] = await other.query('SELECT COUNT(*) AS found FROM authors WHERE name = :name',
        { replacements: { name: `w${n}` }, type: QueryTypes.SELECT });
      wrong += found !== 1;
    }
    say('wrong', wrong);
    await other.close();
  },
  async parallel() {
    const ids = await Promise.all(sequence(40).map((n) => db.transaction(async (transaction) => {
      const book = await Book.create({ title: `p${n}` }, { transaction });
      return (await Book.findByPk(book.id, { transaction })).title;
    })));
    say(ids.every((title, i) => title === `p${i + 1}`), await Book.count({ where: { title: { [Op.like]: 'p%' } } }));
  },
  async errors() {
    await Author.create({ name: 'kept' }).catch(told);
    await Book.create({ title: null }).catch(told);
    await Book.create({ title: 'x', authorId: 4711 }).catch(told);
    await db.query('SELEC').catch(told);
    await db.query('SELECT * FROM not_there').catch(told);
    await open({ password: 'wrong' }).authenticate().catch((error) => say(error.name));
    const one = open({ pool: { max: 1 } });
    await one.query('SET SESSION max_statement_time = 0.05').catch(told);
    await one.query('SELECT SLEEP(5)').catch(told);
    say(await one.query('SELECT 1 AS alive', { type: QueryTypes.SELECT }));
    await one.close();
  },
});

/**
 * @module Keeps the three descriptions of the database consistent: the tables in `tables.ts`, the snapshot that
 * drizzle-kit compares them with, and the SQL of the migrations, which drizzle-kit generates and we extend by hand
 * where it cannot express something.
 */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { migrations } from '#app/migrations.ts'
import { type Migration, migrate } from '#platform/db/migrate.ts'

const ROOT = join(import.meta.dir, '..')
const MIGRATIONS = join(ROOT, 'migrations')

const sqlFiles = (folder: string): Migration[] =>
  readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => ({ name: file.slice(0, -'.sql'.length), sql: readFileSync(join(folder, file), 'utf8') }))

/** Runs drizzle-kit; returns its output and the migrations then in the folder. Its exit code is always 0. */
function generate(folder: string): { output: string; files: Migration[] } {
  const command = [process.execPath, 'node_modules/drizzle-kit/bin.cjs', 'generate', '--dialect', 'sqlite']
  // It resolves paths against its working directory only.
  const paths = ['--schema', './src/features/*/*/tables.ts', '--out', relative(ROOT, folder)]
  const { stdout, stderr } = Bun.spawnSync([...command, ...paths], { cwd: ROOT, stdin: 'ignore' })
  return { output: `${stdout}${stderr}`, files: sqlFiles(folder) }
}

function temporaryFolder(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'tassis-test-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}

function databaseOf(files: readonly Migration[]): Database {
  const db = new Database(':memory:')
  migrate(db, files)
  return db
}

interface Named {
  readonly name: string
}

/** Full-text indexes and SQLite's tables for them: drizzle-kit knows neither. */
const SEARCH = /^(mailbox|email)_search(_|$)/

/** The tables that migrations create, in the form of tables.ts. */
const tableNames = (db: Database): string[] =>
  db
    .query<Named, []>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    .all()
    .map(({ name }) => name)
    .filter((name) => name !== 'migrations' && !SEARCH.test(name))

/** Everything about a table that drizzle can describe. Columns are sorted by name: later migrations append columns. */
function tableOf(db: Database, table: string): unknown {
  const rows = <Row>(pragma: string) => db.query<Row, [string]>(`SELECT * FROM ${pragma}(?)`).all(table)
  const byName = <Row extends Named>(few: readonly Row[]) => few.toSorted((a, b) => a.name.localeCompare(b.name))
  return {
    columns: byName(rows<Named & { cid: number }>('pragma_table_xinfo')).map(({ cid: _, ...column }) => column),
    indexes: db
      // Indexes without SQL belong to a primary key, which the columns show.
      .query<Named & { sql: string }, [string]>(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL ORDER BY name",
      )
      .all(table),
    references: rows('pragma_foreign_key_list'),
  }
}

const schemaOf = (db: Database) => Object.fromEntries(tableNames(db).map((table) => [table, tableOf(db, table)]))

test('tables.ts matches the last snapshot: drizzle-kit would create no migration', () => {
  using folder = temporaryFolder()
  cpSync(MIGRATIONS, folder.path, { recursive: true })
  const { output, files } = generate(folder.path)
  expect(output).toContain('No schema changes')
  expect(files).toEqual(sqlFiles(MIGRATIONS))
})

test('the migrations together create the tables, columns and indexes that tables.ts describes', () => {
  using folder = temporaryFolder()
  const empty = join(folder.path, 'migrations')
  mkdirSync(empty)
  const { files } = generate(empty)
  using described = databaseOf(files)
  using migrated = databaseOf(migrations)
  expect(tableNames(migrated).length).toBeGreaterThan(20)
  expect(schemaOf(migrated)).toEqual(schemaOf(described))
})

test('the service applies every migration in the folder, in order', () => {
  expect(migrations).toEqual(sqlFiles(MIGRATIONS))
})

test('every table is STRICT', () => {
  using db = databaseOf(migrations)
  const loose = db
    .query<Named, []>(
      "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' AND NOT strict",
    )
    .all()
  expect(loose).toEqual([])
  const statements = sqlFiles(MIGRATIONS).flatMap(({ sql }) => sql.split('--> statement-breakpoint'))
  const made = statements.map((text) => text.trim()).filter((text) => /^CREATE TABLE/i.test(text))
  expect(made.length).toBeGreaterThan(20)
  expect(made.filter((text) => !/\)\s*STRICT\b[^)]*;?$/.test(text))).toEqual([])
})

/**
 * @module `bun run migration`: writes SQL from the `tables.ts` of all features with drizzle-kit, and makes its tables
 * STRICT. Without a name, which is only for the time before the first release, it writes `0000_initial` anew, and keeps
 * what was added to it by hand: WITHOUT ROWID, virtual tables, triggers and first rows. With `--name what_it_does` it
 * adds a migration to those there are.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const ROOT = join(import.meta.dir, '..')
const MIGRATIONS = join(ROOT, 'migrations')
const INITIAL = '0000_initial.sql'
const BREAKPOINT = '--> statement-breakpoint'

const splitStatements = (sql: string): string[] =>
  sql
    .split(BREAKPOINT)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')

/** The name of the table that a statement creates. */
const nameTable = (statement: string): string | undefined => /^CREATE TABLE `(\w+)`/.exec(statement)?.[1]

/** Statements of drizzle-kit with what it cannot express: table options, and the statements of `extra`. */
function complete(sql: string, rowidFree: ReadonlySet<string>, extra: readonly string[]): string {
  const statements = splitStatements(sql).map((statement) => {
    const table = nameTable(statement)
    if (table === undefined) return statement
    return statement.replace(/\);$/, rowidFree.has(table) ? ') STRICT, WITHOUT ROWID;' : ') STRICT;')
  })
  return `${[...statements, ...extra].join(`\n${BREAKPOINT}\n`)}\n`
}

function generate(folder: string, name: string): string {
  const command = [process.execPath, 'node_modules/drizzle-kit/bin.cjs', 'generate', '--dialect', 'sqlite']
  // It resolves paths against its working directory only.
  const paths = ['--schema', './src/features/*/*/tables.ts', '--out', relative(ROOT, folder), '--name', name]
  const before = new Set(readdirSync(folder))
  Bun.spawnSync([...command, ...paths], { cwd: ROOT, stdin: 'inherit', stdout: 'inherit', stderr: 'inherit' })
  const file = readdirSync(folder).find((entry) => entry.endsWith('.sql') && !before.has(entry))
  // drizzle-kit has said that there is nothing to migrate.
  if (file === undefined) process.exit()
  return join(folder, file)
}

const [option, name] = process.argv.slice(2)
if (option === '--name' && name !== undefined) {
  const file = generate(MIGRATIONS, name)
  writeFileSync(file, complete(readFileSync(file, 'utf8'), new Set(), []))
} else {
  const folder = mkdtempSync(join(ROOT, 'migrations-'))
  try {
    const current = splitStatements(readFileSync(join(MIGRATIONS, INITIAL), 'utf8'))
    const rowidFree = current.filter((statement) => statement.endsWith('WITHOUT ROWID;')).map(nameTable)
    const extra = current.filter((statement) => !/^CREATE (TABLE|INDEX|UNIQUE INDEX) /.test(statement))
    const file = generate(folder, 'initial')
    const names = new Set(rowidFree.filter((table) => table !== undefined))
    writeFileSync(file, complete(readFileSync(file, 'utf8'), names, extra))
    // The folder itself stays: that of the new files has the rights of a temporary one.
    for (const old of readdirSync(MIGRATIONS)) rmSync(join(MIGRATIONS, old), { recursive: true })
    for (const made of readdirSync(folder)) cpSync(join(folder, made), join(MIGRATIONS, made), { recursive: true })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

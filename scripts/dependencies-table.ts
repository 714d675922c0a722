/**
 * @module Keeps the table of docs/dependencies.md in step with package.json: `bun scripts/dependencies-table.ts` writes
 * names, versions and licences. The purpose of each package and the reason for it are written by hand.
 */
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '..')
const HEAD = '| Package | Version | Licence | Used for | Why this one |\n|---|---|---|---|---|\n'

export interface Dependency {
  readonly name: string
  readonly version: string
  readonly licence: string
  readonly isForDevelopment: boolean
}

/** The hand-written cells of a row. */
interface Reasons {
  readonly usedFor: string
  readonly why: string
}

/** Reads the packages of package.json with the licence that each installed package declares. */
export async function readDependencies(): Promise<Dependency[]> {
  const manifest = await Bun.file(join(ROOT, 'package.json')).json()
  const read = (versions: Readonly<Record<string, string>>, isForDevelopment: boolean): Promise<Dependency>[] =>
    Object.entries(versions).map(async ([name, version]) => {
      const { license } = await Bun.file(join(ROOT, 'node_modules', name, 'package.json')).json()
      return { name, version, licence: String(license), isForDevelopment }
    })
  return Promise.all([...read(manifest.dependencies, false), ...read(manifest.devDependencies, true)])
}

/** Returns the document with a row for each package; the hand-written cells of a new package are empty. */
export function withDependenciesTable(document: string, dependencies: readonly Dependency[]): string {
  const start = document.indexOf(HEAD)
  if (start === -1) throw new Error('docs/dependencies.md has no table of packages')
  const from = start + HEAD.length
  const length = document.slice(from).search(/^(?!\|)/m)
  const to = length === -1 ? document.length : from + length
  const reasons = readReasons(document.slice(from, to))
  const rows = dependencies.map((dependency) => toRow(dependency, reasons.get(dependency.name)))
  return `${document.slice(0, from)}${rows.join('')}${document.slice(to)}`
}

function readReasons(table: string): Map<string, Reasons> {
  const rows = table.split('\n').map((line) => line.split('|').map((cell) => cell.trim()))
  return new Map(
    rows.map(([, name = '', , , usedFor = '', why = '']) => [/`(.+)`/.exec(name)?.[1] ?? '', { usedFor, why }]),
  )
}

const toRow = (
  { name, version, licence, isForDevelopment }: Dependency,
  { usedFor, why }: Reasons = { usedFor: '', why: '' },
): string =>
  `| \`${name}\`${isForDevelopment ? ' (development)' : ''} | ${version} | ${licence} | ${usedFor} | ${why} |\n`

/** Lists packages whose hand-written cells are empty. */
export const listUnexplained = (document: string): string[] =>
  [...readReasons(document.slice(document.indexOf(HEAD) + HEAD.length))]
    .filter(([name, { usedFor, why }]) => name !== '' && (usedFor === '' || why === ''))
    .map(([name]) => name)

if (import.meta.main) {
  const path = join(ROOT, 'docs/dependencies.md')
  await Bun.write(path, withDependenciesTable(await Bun.file(path).text(), await readDependencies()))
}

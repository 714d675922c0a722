/** @module A file of providers in a temporary folder, removed at the end of the process. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let folder: string | undefined
let files = 0

/** The setting of a file that changes fields of the entry of sites without another one, such as `connections`. */
export function siteLimits(fields: Readonly<Record<string, number>>): { readonly TASSIS_PROVIDERS_FILE: string } {
  if (folder === undefined) {
    const created = mkdtempSync(join(tmpdir(), 'tassis-providers-'))
    process.on('exit', () => rmSync(created, { recursive: true, force: true }))
    folder = created
  }
  const path = join(folder, `${++files}.toml`)
  const lines = Object.entries(fields).map(([name, value]) => `${name} = ${value}\n`)
  writeFileSync(path, `[default]\n${lines.join('')}`)
  return { TASSIS_PROVIDERS_FILE: path }
}

/** @module A temporary folder that is deleted at the end of its scope, for tests. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Folder extends Disposable {
  readonly path: string
  /** Path of a file, which need not exist. */
  pathOf(name: string): string
}

/** Creates a folder with these files: content by name. */
export function createFolder(files: Readonly<Record<string, string>> = {}): Folder {
  const path = mkdtempSync(join(tmpdir(), 'tassis-test-'))
  const pathOf = (name: string) => join(path, name)
  for (const [name, content] of Object.entries(files)) writeFileSync(pathOf(name), content)
  return { path, pathOf, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

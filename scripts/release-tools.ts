/** @module What the scripts that build releases share: running programs, and packing archives that are the same again. */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export const ROOT = resolve(import.meta.dir, '..')

export class ReleaseError extends Error {}

/** Runs a program and returns its output. @throws ReleaseError with the output of a program that failed */
export function run(
  command: readonly string[],
  options: { readonly cwd?: string; readonly env?: Record<string, string> } = {},
): string {
  const env = { ...process.env, ...options.env }
  const { success, stdout, stderr } = Bun.spawnSync([...command], { cwd: options.cwd ?? ROOT, env })
  if (!success) throw new ReleaseError(`${command.join(' ')} failed:\n${stdout}${stderr}`)
  return stdout.toString().trim()
}

/** Packs a folder: files in order of name, with the time of the commit and without the names of users. */
export function pack(folder: string, name: string, epoch: number): Uint8Array<ArrayBuffer> {
  const tar = join(folder, `${name}.tar`)
  const same = ['--format=ustar', '--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX']
  run(['tar', '--create', `--file=${tar}`, ...same, `--mtime=@${epoch}`, name], { cwd: folder })
  return Bun.gzipSync(readFileSync(tar), { level: 6 })
}

/** @module Finds the data of the service that is installed on this machine, for a command that was pointed elsewhere. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { attempt } from '#platform/attempt.ts'

/** In the order in which systemd looks. */
export const UNIT_FOLDERS: readonly string[] = [
  '/etc/systemd/system',
  '/run/systemd/system',
  '/usr/local/lib/systemd/system',
  '/usr/lib/systemd/system',
  '/lib/systemd/system',
]

export interface InstalledData {
  readonly dataDir: string
  /** What says so, such as `/etc/systemd/system/tassis.service`. */
  readonly source: string
}

/** Returns the data directory that a unit of Tassis names. */
export function findInstalledData(folders: readonly string[] = UNIT_FOLDERS): InstalledData | undefined {
  for (const source of folders.flatMap(listUnits)) {
    const dataDir = readDataDir(source)
    if (dataDir !== undefined) return { dataDir, source }
  }
  return undefined
}

/** The drop-ins of a unit come before it, because they override it. */
function listUnits(folder: string): string[] {
  const units = listNames(folder).filter((name) => /^tassis.*\.service$/.test(name))
  return units.flatMap((unit) => {
    const dropIns = listNames(join(folder, `${unit}.d`))
      .toSorted()
      .toReversed()
    return [...dropIns.map((name) => join(folder, `${unit}.d`, name)), join(folder, unit)]
  })
}

/** `Environment=A=1 "TASSIS_DATA_DIR=/a b"`, `TASSIS_DATA_DIR=/a` in a file of variables, `data_dir = "/a"` in TOML. */
const DATA_DIR =
  /(?:(["'])TASSIS_DATA_DIR=([^"'\n]+)|\bTASSIS_DATA_DIR=["']?([^\s"']+)|^data_dir {0,9}= {0,9}["']([^"'\n]+))/gm
const FILES = /(?:^EnvironmentFile=-?|\bTASSIS_CONFIG=["']?)([^\s"']+)/gm

/** The last data directory in a unit or in the files that it names. */
function readDataDir(path: string): string | undefined {
  const text = (attempt(() => readFileSync(path, 'utf8')) ?? '').replace(/^[#;].*/gm, '')
  const named = [...text.matchAll(FILES)].flatMap(([, file = '']) => (file === path ? [] : (readDataDir(file) ?? [])))
  const values = [...text.matchAll(DATA_DIR)].map(([, , quoted, plain, toml]) => quoted ?? plain ?? toml)
  return (named.at(-1) ?? values.at(-1))?.replace('%S', '/var/lib')
}

const listNames = (folder: string): readonly string[] => attempt(() => readdirSync(folder)) ?? []

/** @module The files of content stores in a data directory. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { unlessMissing } from '#platform/errors.ts'
import { parseMonthName } from './read.ts'

/** Content stores: databases by month with folders of large blobs, and the ids that they have issued. */
export const STORES = ['content', 'raw-mail'] as const

/** Names in a folder; none when the folder does not exist. */
export const listNames = (folder: string): string[] => unlessMissing(() => readdirSync(folder)) ?? []

/** The databases of a content store, such as `content/2026-11.db`. */
export const listMonthDatabases = (dataDir: string, store: string): string[] =>
  listNames(join(dataDir, store))
    .filter((name) => name.endsWith('.db') && parseMonthName(name) !== undefined)
    .sort()
    .map((name) => `${store}/${name}`)

/** The files of large blobs of a content store, without unfinished ones. */
export const listBlobFiles = (dataDir: string, store: string): string[] =>
  listNames(join(dataDir, store))
    .filter((name) => !name.includes('.') && parseMonthName(name) !== undefined)
    .flatMap((month) =>
      listNames(join(dataDir, store, month))
        .filter((name) => /^[0-9a-f]{32}\.zst$/.test(name))
        .map((name) => `${store}/${month}/${name}`),
    )
    .sort()

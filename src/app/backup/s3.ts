/**
 * @module Backups in S3-compatible storage. `PREFIX/tassis-TIME/manifest.json` makes a backup complete and is written
 * last. Files are objects named by their SHA-256, `PREFIX/files/HASH`, so a file that several backups hold is stored
 * and sent once. Uses no request but those to put, read, list and delete objects.
 */

import { join } from 'node:path'
import { S3Client } from 'bun'
import { CommandError } from '#app/cli/options.ts'
import type { Config } from '#platform/settings/config.ts'
import { parseS3Url, type S3Place } from '#platform/settings/s3-url.ts'
import { MiB } from '#platform/units.ts'
import { BackupError } from './errors.ts'
import {
  type BackupReader,
  formatManifest,
  isBackupName,
  MANIFEST_FILE,
  type Manifest,
  parseManifest,
  sortBackupNames,
} from './manifest.ts'

export interface S3Target extends S3Place {
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

/** The smallest that S3 allows; each part takes several times its size in memory. */
const PART_BYTES = 5 * MiB
const CONCURRENT_PARTS = 2
const RETRIES = 3

/** The storage of the settings; undefined when none is set. Throws BackupError when the settings are incomplete. */
export function readS3Target(config: Config): S3Target | undefined {
  const place = parseS3Url(config.backupS3Url)
  if (!place) return undefined
  const { backupS3AccessKeyId: accessKeyId, backupS3SecretAccessKey: secretAccessKey } = config
  if (accessKeyId === '' || secretAccessKey === '')
    throw new BackupError(
      'TASSIS_BACKUP_S3_URL is set; set TASSIS_BACKUP_S3_ACCESS_KEY_ID and TASSIS_BACKUP_S3_SECRET_ACCESS_KEY too.',
    )
  return { ...place, accessKeyId, secretAccessKey }
}

export class S3Backups {
  readonly #client: S3Client
  readonly #target: S3Target

  constructor(target: S3Target) {
    this.#target = target
    const { prefix: _, ...options } = target
    this.#client = new S3Client(options)
  }

  /**
   * Uploads a directory backup, without the files that are already there.
   * @returns number of bytes sent
   */
  async upload(folder: string, name: string, manifest: Manifest): Promise<number> {
    return this.#explain(async () => {
      const stored = new Map(await this.#list('files/'))
      let sentBytes = 0
      for (const { path, size, sha256 } of manifest.files) {
        if (stored.get(sha256) === size) continue
        await this.#put(join(folder, path), `files/${sha256}`)
        const { size: storedBytes } = await this.#client.stat(this.#key(`files/${sha256}`))
        if (storedBytes !== size)
          throw new BackupError(`${this.#place} stored ${storedBytes} of ${size} bytes of ${path}.`)
        stored.set(sha256, size)
        sentBytes += size
      }
      await this.#client.write(this.#key(`${name}/${MANIFEST_FILE}`), formatManifest(manifest))
      return sentBytes
    })
  }

  /** The complete backups, oldest first. */
  async names(): Promise<string[]> {
    const all = await this.#explain(() => this.#list('tassis-'))
    return sortBackupNames(
      all.flatMap(([key]) => {
        const [name = '', file] = key.split('/')
        return file === MANIFEST_FILE && isBackupName(`tassis-${name}`) ? [`tassis-${name}`] : []
      }),
    )
  }

  /**
   * Removes the oldest backups beyond `keep`, then the files that no backup holds any more; returns the names. Only one
   * process may write below the prefix.
   */
  async removeOld(keep: number): Promise<string[]> {
    const names = await this.names()
    const old = names.slice(0, -keep)
    if (old.length === 0) return []
    return this.#explain(async () => {
      const held = new Set<string>()
      // Read first: when one cannot be read, nothing is removed.
      for (const name of names.slice(-keep))
        for (const { sha256 } of (await this.#readManifest(name)).files) held.add(sha256)
      for (const name of old) await this.#client.delete(this.#key(`${name}/${MANIFEST_FILE}`))
      for (const [sha256] of await this.#list('files/'))
        if (!held.has(sha256)) await this.#client.delete(this.#key(`files/${sha256}`))
      return old
    })
  }

  /** Opens a backup. Throws BackupError when there is none of this name. */
  async open(name: string): Promise<BackupReader> {
    const names = await this.names()
    if (!names.includes(name))
      throw new BackupError(
        names.length === 0
          ? `${this.#place} holds no backup.`
          : `${this.#place} holds no backup "${name}"; the newest is s3:${names.at(-1)}.`,
      )
    const manifest = await this.#explain(() => this.#readManifest(name))
    const stored = new Map(await this.#explain(() => this.#list('files/')))
    const read = (sha256: string) => this.#read(`files/${sha256}`)
    return {
      name,
      manifest,
      async *entries() {
        for (const { path, sha256 } of manifest.files) if (stored.has(sha256)) yield { path, chunks: read(sha256) }
      },
    }
  }

  get #place(): string {
    return `${this.#target.endpoint}/${this.#target.bucket}/${this.#target.prefix}`
  }

  #key(name: string): string {
    return `${this.#target.prefix}/${name}`
  }

  async #readManifest(name: string): Promise<Manifest> {
    return parseManifest(await this.#client.file(this.#key(`${name}/${MANIFEST_FILE}`)).text(), name)
  }

  async #put(path: string, key: string): Promise<void> {
    const options = { partSize: PART_BYTES, queueSize: CONCURRENT_PARTS, retry: RETRIES }
    await this.#client.write(this.#key(key), Bun.file(path), options)
  }

  /** The bytes of an object. A failure is not damage of the backup, so it throws CommandError, not BackupError. */
  async *#read(name: string): AsyncGenerator<Uint8Array> {
    const reader = this.#client.file(this.#key(name)).stream().getReader()
    try {
      for (;;) {
        const { done, value } = await this.#explain(() => reader.read(), CommandError)
        if (done) return
        yield value
      }
    } finally {
      // Of a stream that failed, this fails too.
      void reader.cancel().catch(() => undefined)
    }
  }

  /** Names below the prefix, without `start`, with sizes. */
  async #list(start: string): Promise<[string, number][]> {
    const prefix = this.#key(start)
    const found: [string, number][] = []
    let continuationToken: string | undefined
    do {
      const page = await this.#client.list({ prefix, ...(continuationToken && { continuationToken }) })
      for (const { key, size } of page.contents ?? []) found.push([key.slice(prefix.length), size ?? -1])
      continuationToken = page.isTruncated ? page.nextContinuationToken : undefined
    } while (continuationToken !== undefined)
    return found
  }

  /** Runs requests; explains their failure without the credentials. */
  async #explain<T>(run: () => Promise<T>, Failure: typeof CommandError = BackupError): Promise<T> {
    try {
      return await run()
    } catch (error) {
      if (error instanceof BackupError || !(error instanceof Error)) throw error
      const code = 'code' in error ? String(error.code) : error.name
      const [, hint] = HINTS.find(([pattern]) => pattern.test(`${code} ${error.message}`)) ?? []
      throw new Failure(
        `The storage ${this.#place} failed (${code}: ${error.message})${hint === undefined ? '' : `; ${hint}`}.`,
      )
    }
  }
}

const HINTS: readonly (readonly [RegExp, string])[] = [
  [/NoSuchBucket/, 'create the bucket, or correct TASSIS_BACKUP_S3_URL'],
  [/InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|Forbidden/, 'correct the access key and its rights'],
  [
    /RequestTimeTooSkewed/,
    'the clock of this machine differs by more than 15 minutes from that of the storage: set it (`timedatectl` shows whether it is synchronised)',
  ],
  [/ConnectionRefused|ENOTFOUND|FailedToOpenSocket|Timeout/i, 'check TASSIS_BACKUP_S3_URL and the network'],
]

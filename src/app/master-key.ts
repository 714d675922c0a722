/**
 * @module The master keys of a database: where they are, whether they are the right ones, and their rotation; with
 * /v1/operator/master-keys. The first key in the file or setting is the newest. A key that the database does not know
 * there begins a rotation, so a crash at any moment leaves one of two states: the new key is not in the file, or the
 * rotation goes on at the next start.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { KEY_META, listOutdatedKeys, readNewestKey, shortenFingerprint } from '#app/backup/key.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { type AuditActor, audit, SYSTEM_ACTOR, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { SEALED_COLUMNS as TOTP } from '#features/people/team/totp.ts'
import { SEALED_COLUMNS as RESPONSES } from '#features/sending/accept/idempotency.ts'
import { SEALED_COLUMNS as DNS } from '#features/setup/dns-publish/credentials.ts'
import { SEALED_COLUMNS as DOMAINS } from '#features/setup/domains/sending.ts'
import { SEALED_COLUMNS as WEBHOOKS } from '#features/webhooks/webhooks/manage/secrets.ts'
import * as masterKeys from '#platform/crypto/crypto.ts'
import { countSealed, type Resealing, resealAll, type SealedColumns } from '#platform/crypto/sealed-columns.ts'
import type { Tx } from '#platform/db/open.ts'
import { runAsCaller } from '#platform/disk/data-owner.ts'
import { conflict } from '#platform/errors.ts'
import { dataBody, isoTimeOrNull } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { Count, DataBody, Nullable, Text, TextOrNull, Timestamp } from '#platform/http/schemas.ts'
import type { Log } from '#platform/log/log.ts'
import { perOwner } from '#platform/per-owner.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import type { Millis } from '#platform/units.ts'

const SEALED: readonly SealedColumns[] = [...DOMAINS, ...DNS, ...WEBHOOKS, ...TOTP, ...RESPONSES]

const META = {
  ...KEY_META,
  /** When that key became the newest; missing in a database whose key was never rotated. */
  since: 'master_key_since',
  /** The subkeys that never change, sealed; missing while they are those of the newest key. */
  fixed: 'master_key_fixed',
} as const

const masterKeyPath = ({ masterKeyFile, dataDir }: Config): string =>
  masterKeyFile === '' ? join(dataDir, 'master.key') : masterKeyFile

/** Reads the keys from the setting, the named file or the data directory; creates a key only for a new database. */
export function openKeyRing(config: Config, isNew: boolean): masterKeys.KeyRing {
  if (config.masterKey !== '') {
    const keys = masterKeys.parseMasterKeys(config.masterKey)
    if (!keys)
      throw new ConfigError(
        `TASSIS_MASTER_KEY must be 32 bytes in base64 (\`openssl rand -base64 32\`), or up to ${masterKeys.MAX_MASTER_KEYS} such keys separated by commas, the newest first.`,
      )
    return new masterKeys.KeyRing(keys)
  }
  const path = masterKeyPath(config)
  let keys: readonly Uint8Array[] | undefined
  try {
    keys = runAsCaller(() => masterKeys.readMasterKeyFile(path))
  } catch (error) {
    throw new ConfigError(`The master key cannot be used: ${error instanceof Error ? error.message : String(error)}.`)
  }
  if (!keys && !isNew)
    throw new ConfigError(`The master key file ${path} is missing, but the database needs it; restore it.`)
  return new masterKeys.KeyRing(keys ?? masterKeys.createMasterKeyFile(path))
}

/**
 * Checks the keys against the database, and begins a rotation when the newest key is new to it. Throws ConfigError,
 * with nothing changed, when a key is missing that the database needs.
 */
export function settleMasterKey(db: Database, keys: masterKeys.KeyRing, now: Millis, log: Log): void {
  const known = readNewestKey(db)
  if (known === undefined) {
    keys.fixTo(keys.fingerprint())
    setMeta(db, META.newest, keys.fingerprint())
    return
  }
  requireKeysOf(db, keys)
  const fixed = getMeta(db, META.fixed)
  if (fixed === undefined) keys.fixTo(known)
  else keys.openFixed(Uint8Array.fromBase64(fixed))
  if (known === keys.fingerprint()) return
  db.transaction(() => beginRotation({ db }, keys, now, SYSTEM_ACTOR))()
  log.warn(
    { key: shortenFingerprint(keys.fingerprint()), former: shortenFingerprint(known) },
    `the first master key is new to this database, so every secret is now sealed again under it; ${IF_FOREIGN_KEY}`,
  )
}

/** What to do about a key that begins a rotation and was put first by mistake: by now the database needs it. */
export const IF_FOREIGN_KEY =
  'if it is not a new key of this service, remove no key, and run `tassis keys rotate-master` once all are sealed'

/** Throws ConfigError when a key is missing that the database needs. */
export function requireKeysOf(db: Database, keys: masterKeys.KeyRing): void {
  const known = readNewestKey(db)
  const present = keys.fingerprints()
  if (known !== undefined && !present.includes(known)) {
    throw new ConfigError(
      `The master key does not match the database, which needs the key ${shortenFingerprint(known)} (this is ${present.map(shortenFingerprint).join(', ')}); use the right key. Nothing was changed.`,
    )
  }
  const missing = listOutdatedKeys(db).filter((fingerprint) => !present.includes(fingerprint))
  if (missing.length > 0) {
    throw new ConfigError(
      `The former master key ${missing.map(shortenFingerprint).join(', ')} is missing, but secrets are still sealed under it; put it back below the newest key until \`tassis keys list-master\` shows that nothing is sealed under it. Nothing was changed.`,
    )
  }
}

/** Records in the caller's transaction that the newest key of the ring is now that of the database. */
function beginRotation(tx: Pick<Tx, 'db'>, keys: masterKeys.KeyRing, now: Millis, actor: AuditActor): void {
  const { db } = tx
  const known = readNewestKey(db)
  const newest = keys.fingerprint()
  if (known === undefined || known === newest) return
  const outdated = new Set([...listOutdatedKeys(db), known])
  outdated.delete(newest)
  setMeta(db, META.newest, newest)
  setMeta(db, META.since, String(now))
  setMeta(db, META.outdated, [...outdated].join(' '))
  setMeta(db, META.fixed, keys.sealFixed().toBase64())
  audit({ eventTime: () => now }, tx, actor, {
    action: 'master_key.rotated',
    resourceType: 'master_key',
    resourceId: shortenFingerprint(newest),
    metadata: { former: shortenFingerprint(known) },
  })
}

type Parts = Pick<App, 'commit' | 'config' | 'db' | 'keys' | 'clock' | 'eventTime' | 'log'>

/** The re-sealing of a database: the schedule and a command share the one in progress. */
const runOf = perOwner((_: Database) => ({ hasEnded: false, reseal: shareRun(reseal) }))

/**
 * Continues a rotation: seals again everything that is sealed under former keys, in batches. Resolves at once when no
 * rotation is in progress, except for the first call after a start with former keys: what was sealed while the last pass
 * of a rotation ran may have been stored after it.
 */
export function continueRotation(app: Parts, signal?: AbortSignal): Promise<Resealing> {
  const run = runOf(app.db)
  const isDone = run.hasEnded || app.keys.masters().length === 1
  if (isDone && listOutdatedKeys(app.db).length === 0) return Promise.resolve({ resealed: 0, unreadable: 0 })
  return run.reseal(app, signal)
}

async function reseal(app: Parts, signal: AbortSignal | undefined): Promise<Resealing> {
  const { db, commit, keys, log } = app
  let resealed = 0
  for (;;) {
    const outdated = listOutdatedKeys(db)
    const done = await resealAll({ db, commit, keys, signal }, SEALED)
    resealed += done.resealed
    // The service stops: the next start goes on.
    if (signal?.aborted) return { resealed, unreadable: done.unreadable }
    if (done.resealed > 0) continue
    // A rotation that began during the pass has added a key.
    const isComplete = await commit.write((tx) => {
      if (listOutdatedKeys(tx.db).length !== outdated.length) return false
      setMeta(tx.db, META.outdated, '')
      return true
    })
    if (!isComplete) continue
    runOf(db).hasEnded = true
    if (resealed > 0 || outdated.length > 0)
      log.info(
        { key: shortenFingerprint(keys.fingerprint()), secrets: resealed },
        'everything is sealed under the newest master key',
      )
    if (done.unreadable > 0)
      log.warn(
        { secrets: done.unreadable },
        'sealed secrets that no master key opens: `tassis keys list-master` counts them',
      )
    return { resealed, unreadable: done.unreadable }
  }
}

/**
 * Creates a new master key, puts it on top of the key file and seals everything again under it. Finishes a rotation
 * that was interrupted instead, if there is one. Throws 409 when the keys are where this process cannot write.
 */
export async function rotateMasterKey(app: Parts, actor: AuditActor) {
  const { config, keys } = app
  const wasBegun = listOutdatedKeys(app.db).length > 0
  if (!wasBegun) await addKey(app, actor)
  const done = await continueRotation(app)
  const [, ...former] = keys.fingerprints()
  return {
    ...done,
    key: shortenFingerprint(keys.fingerprint()),
    former: former.map(shortenFingerprint),
    path: config.masterKey === '' ? masterKeyPath(config) : null,
    was_begun: wasBegun,
  }
}

const BY_HAND =
  'create a key with `openssl rand -base64 32`, put it before the present one (a line of its own in a file, a comma between them in a variable), and restart Tassis: it then seals everything again by itself'

async function addKey({ config, keys, commit, eventTime }: Parts, actor: AuditActor): Promise<void> {
  if (config.masterKey !== '')
    throw conflict(
      'master_key_not_writable',
      `The master key comes from TASSIS_MASTER_KEY, so rotate it there: ${BY_HAND}.`,
    )
  if (keys.masters().length >= masterKeys.MAX_MASTER_KEYS)
    throw conflict(
      'too_many_master_keys',
      `The key file already holds ${masterKeys.MAX_MASTER_KEYS} keys; remove the last one that \`tassis keys list-master\` shows as removable, restart Tassis, and try again.`,
    )
  const path = masterKeyPath(config)
  const key = masterKeys.generateMasterKey()
  try {
    runAsCaller(() => masterKeys.replaceMasterKeyFile(path, [key, ...keys.masters()]))
  } catch (error) {
    throw conflict(
      'master_key_not_writable',
      `The master key file ${path} cannot be replaced (${error instanceof Error ? error.message : String(error)}), so rotate it by hand: ${BY_HAND}.`,
    )
  }
  // Only now that the key is on disk may anything be sealed under it.
  keys.add(key)
  await commit.write((tx) => beginRotation(tx, keys, eventTime(), actor))
}

/** The master keys, newest first, and what is sealed under each. */
export async function listMasterKeys({ db, keys }: Pick<App, 'db' | 'keys'>) {
  const counts = await countSealed({ db, keys }, SEALED)
  const outdated = new Set(listOutdatedKeys(db))
  const views = keys.fingerprints().map((fingerprint, index) => {
    const secrets = counts.get(fingerprint) ?? 0
    const isNewest = index === 0
    return {
      key: shortenFingerprint(fingerprint) as string | null,
      is_newest: isNewest,
      secrets,
      is_needed: isNewest || secrets > 0 || outdated.has(fingerprint),
    }
  })
  const lost = counts.get('') ?? 0
  const since = getMeta(db, META.since)
  return {
    keys: lost > 0 ? [...views, { key: null, is_newest: false, secrets: lost, is_needed: true }] : views,
    newest_since: since === undefined ? null : Number(since),
  }
}

const MasterKey = Type.Object({
  key: TextOrNull('Fingerprint, shortened; null: secrets whose key is not there.'),
  is_newest: Type.Boolean({ description: 'Whether it seals and signs everything new.' }),
  secrets: Count('Number of secrets in the database that are sealed under it.'),
  is_needed: Type.Boolean({
    description: 'Whether it may still seal something; without a key: whether anything is lost.',
  }),
})

const RotatedMasterKey = Type.Object({
  key: Text('Fingerprint of the newest key, shortened.'),
  former: Type.Array(Type.String(), { description: 'Fingerprints of the former keys, newest first.' }),
  path: TextOrNull('File that now holds the keys; null: they are in TASSIS_MASTER_KEY.'),
  was_begun: Type.Boolean({ description: 'True: a rotation that had begun before was finished; no key was created.' }),
  resealed: Count('Number of secrets that were sealed again.'),
  unreadable: Count('Number of secrets that no key opens; they stay as they are.'),
})

export const masterKeyRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/master-keys' })
    .use(authenticated)
    .get(
      '/',
      async () => {
        const { keys, newest_since: since } = await listMasterKeys(app)
        return { ...dataBody(keys), newest_since: isoTimeOrNull(since) }
      },
      {
        response: Type.Object({
          data: Type.Array(MasterKey),
          newest_since: Nullable(Timestamp(), { description: 'When the newest became that; null: it is the first.' }),
        }),
        detail: commandRoute('List the master keys', 'Newest first.'),
      },
    )
    .post(
      '/rotate',
      async ({ actor, request }) =>
        dataBody(await withoutTimeLimit(request, () => rotateMasterKey(app, toServiceActor(actor)))),
      {
        response: DataBody(RotatedMasterKey),
        detail: commandRoute(
          'Rotate the master key',
          'Creates a key and seals every stored secret again under it; finishes a rotation that had begun instead.',
          { 409: ['master_key_not_writable', 'The keys are where the service cannot write, or there are too many.'] },
        ),
      },
    )

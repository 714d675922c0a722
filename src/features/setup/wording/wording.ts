/** @module The wording of an account: reads it, changes it, and finds what a mail or page shows with it. */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { chooseLanguage, LANGUAGES, type Language } from '#platform/http/language.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { TEXTS } from './languages.ts'
import { fitLogo, type Logo } from './logo.ts'
import type { wordings } from './tables.ts'
import { parseText, parseTexts, type ReplacedTexts, replaceTexts, type TextsByLanguage } from './texts.ts'

/** Path of the logos: below /t, because tracking hosts serve only that. */
export const LOGO_PATH = '/t/logo'

/** A stored logo without its bytes. */
type LogoFacts = Omit<Logo, 'bytes'>

export interface Wording {
  readonly name: string | null
  /** Only languages with texts of the account. */
  readonly texts: TextsByLanguage
  readonly logo: LogoFacts | null
}

const NOTHING: Wording = { name: null, texts: {}, logo: null }

type WordingRow = Pick<typeof wordings.$inferSelect, 'name' | 'texts'> &
  Omit<LogoFacts, 'hash'> & { readonly hash: string | null }
type StoredLogo = Pick<Logo, 'bytes'> & { readonly type: string }

const COLUMNS = 'wordings.name, texts, logo_hash AS hash, logo_type AS type, logo_width AS width, logo_height AS height'

const sql = prepareStatements((db) => ({
  ofAccount: db.prepare<WordingRow, [number]>(`SELECT ${COLUMNS} FROM wordings WHERE account_id = ?`),
  // An account that is being deleted has no wording any more.
  ofUuid: db.prepare<WordingRow, [Uint8Array]>(
    `SELECT ${COLUMNS} FROM accounts JOIN wordings ON account_id = accounts.id WHERE uuid = ? AND deleted_at IS NULL`,
  ),
  logo: db.prepare<StoredLogo, [string, Uint8Array | null]>(
    `SELECT logo_type AS type, logo AS bytes FROM wordings JOIN accounts ON accounts.id = account_id
     WHERE logo_hash = ?1 AND deleted_at IS NULL AND (?2 IS NULL OR uuid = ?2) LIMIT 1`,
  ),
  set: db.prepare(
    `INSERT INTO wordings (account_id, name, texts, updated_at) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET name = excluded.name, texts = excluded.texts, updated_at = excluded.updated_at`,
  ),
  setLogo: db.prepare(
    `INSERT INTO wordings (account_id, texts, logo_hash, logo_type, logo_width, logo_height, logo, updated_at) VALUES (?, '{}', ?, ?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET logo_hash = excluded.logo_hash, logo_type = excluded.logo_type, logo_width = excluded.logo_width,
       logo_height = excluded.logo_height, logo = excluded.logo, updated_at = excluded.updated_at`,
  ),
  remove: db.prepare('DELETE FROM wordings WHERE account_id = ?'),
}))

const toWording = (row: WordingRow | null): Wording => {
  if (!row) return NOTHING
  const { name, texts, hash, type, width, height } = row
  return {
    name,
    texts: JSON.parse(texts) as TextsByLanguage,
    logo: hash === null ? null : { hash, type, width, height },
  }
}

/** The wording of an account by row id; empty while it has none. */
export const readWording = (db: Database, accountId: number): Wording => toWording(sql(db).ofAccount.get(accountId))

/**
 * The logo with this hash; undefined when no account has it.
 * @param accountUuid only of this account
 */
export const findLogo = (db: Database, hash: string, accountUuid?: UuidBytes): StoredLogo | undefined =>
  sql(db).logo.get(hash, accountUuid ?? null) ?? undefined

/** What one mail or page shows: the texts in its language, and the name and logo of the account. */
export interface ShownTexts extends ReplacedTexts {
  readonly language: Language
  readonly name: string | null
  /** With its size in CSS pixels. */
  readonly logo: { readonly url: string; readonly width: number; readonly height: number; readonly alt: string } | null
}

/** Our texts in the language of the reader, for pages that know no account yet. */
export function chooseOurTexts(request: Request): ShownTexts {
  const language = chooseLanguage(request.headers.get('accept-language'))
  return { ...TEXTS[language], language, name: null, logo: null }
}

interface Occasion {
  readonly language: Language
  /** Domain of the sender, for {{name}} while the account has set no name. */
  readonly sender: string
  /** Name of the contact list, if there is one. */
  readonly list?: string
  /** URL of a logo there; default: from a page whose URL ends in a token. */
  readonly toLogoUrl?: (hash: string) => string
}

/** What a mail or page of an account shows; after its deletion, only our texts. */
export const findShownTexts = (db: Database, accountUuid: UuidBytes, occasion: Occasion): ShownTexts =>
  toShownTexts(toWording(sql(db).ofUuid.get(accountUuid)), occasion)

/** What a mail or page shows with a wording. */
export function toShownTexts(
  { name, logo, texts }: Wording,
  // A path prefix in front of a page may be unknown to us.
  { language, sender, list, toLogoUrl = (hash) => `..${LOGO_PATH}/${hash}` }: Occasion,
): ShownTexts {
  return {
    ...replaceTexts(TEXTS[language], texts[language] ?? {}, { name: name ?? sender, list }),
    language,
    name,
    logo: logo && { url: toLogoUrl(logo.hash), ...fitLogo(logo), alt: name ?? sender },
  }
}

interface WordingChange {
  /** Null and an empty text: none. */
  readonly name?: string | null | undefined
  /** Replaces the texts of each language that is named; null: ours. */
  readonly texts?: { readonly [L in Language]?: Parameters<typeof parseTexts>[1] | null | undefined } | undefined
}

/** Changes name and texts; omitted languages keep theirs. Throws 422 for the first invalid one. */
export function changeWording(app: App, actor: Actor, { name, texts = {} }: WordingChange): Promise<Wording> {
  const languages = LANGUAGES.filter((language) => texts[language] !== undefined)
  if (name === undefined && languages.length === 0) throw invalid('body', 'At least one of name and texts must be set.')
  const newName = typeof name === 'string' ? (parseText('name', name, 'line') ?? null) : name
  const newTexts = Object.fromEntries(
    languages.map((language) => [language, parseTexts(language, texts[language] ?? {})]),
  )
  return app.commit.write((tx) => {
    const before = readWording(tx.db, actor.accountId)
    const merged = Object.entries({ ...before.texts, ...newTexts }).filter(([, own]) => Object.keys(own).length > 0)
    sql(tx.db).set.run(
      actor.accountId,
      newName === undefined ? before.name : newName,
      JSON.stringify(Object.fromEntries(merged)),
      app.eventTime(),
    )
    record(app, tx, actor, 'wording.updated', {
      ...(newName !== undefined && { name: newName }),
      ...(languages.length > 0 && { languages }),
    })
    return readWording(tx.db, actor.accountId)
  })
}

/** Sets or, with null, deletes the logo of the account. Deleting none changes nothing. */
export function changeLogo(app: App, actor: Actor, logo: Logo | null): Promise<Wording> {
  return app.commit.write((tx) => {
    const before = readWording(tx.db, actor.accountId)
    if (logo === null && before.logo === null) return before
    const values = logo && [logo.hash, logo.type, logo.width, logo.height, logo.bytes]
    sql(tx.db).setLogo.run(actor.accountId, ...(values ?? [null, null, null, null, null]), app.eventTime())
    record(app, tx, actor, logo ? 'wording.logo_updated' : 'wording.logo_deleted', logo ? { hash: logo.hash } : {})
    return readWording(tx.db, actor.accountId)
  })
}

/** Deletes name, texts and logo: everything is ours again. */
export function deleteWording(app: App, actor: Actor): Promise<void> {
  return app.commit.write((tx) => {
    if (sql(tx.db).remove.run(actor.accountId).changes > 0) record(app, tx, actor, 'wording.deleted', {})
  })
}

const record = (app: App, tx: Tx, actor: Actor, action: string, metadata: Readonly<Record<string, unknown>>): void =>
  audit(app, tx, actor, { action, resourceType: 'wording', resourceId: actor.accountUuid, metadata })

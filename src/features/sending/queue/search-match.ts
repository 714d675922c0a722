/**
 * @module The words under which an email is indexed, and the FTS5 query of a search, which has to make the same ones. A
 * word belongs to one account, so a search reads no entries of others, and a word that is searched by its beginning
 * also to a shard (see `search.ts`): it starts with both numbers.
 */
import { parseSearchedWords } from '#platform/db/full-text.ts'
import { invalid } from '#platform/errors.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

/** A shard is the emails of 131,072 consecutive row ids: its most common beginning takes some 60 ms to read. */
const SHARD_BITS = 17
export const SHARD_SIZE = 2 ** SHARD_BITS

export const shardOf = (id: number): number => Math.floor(id / SHARD_SIZE)

/** Letters that begin a longer word find it. */
const MAX_WORD_LENGTH = 60

const ASCII_ONLY = /^[\x20-\x7e]*$/

/** The words of a text without case, accents and marks, and without characters that only direct the writing. */
function toWords(text: string): string[] {
  if (ASCII_ONLY.test(text)) return shorten(text.toLowerCase().match(/[a-z0-9]+/g) ?? [])
  const folded = text
    .toWellFormed()
    .toLowerCase()
    .normalize('NFKD')
    .replace(/[\p{M}\p{Cf}]+/gu, '')
  return shorten(folded.toLowerCase().match(/[\p{L}\p{N}\p{Co}]+/gu) ?? [])
}

const shorten = (words: string[]): string[] =>
  words.some((word) => word.length > MAX_WORD_LENGTH)
    ? words.map((word) => word.slice(0, MAX_WORD_LENGTH).toWellFormed())
    : words

/** Lowers ASCII letters only, as SQLite does. */
const lowerAscii = (text: string): string =>
  ASCII_ONLY.test(text) ? text.toLowerCase() : text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

/** An address as one word: the tokenizer splits only ASCII text, at what is neither letter nor digit. */
const toOneWord = (text: string): string =>
  lowerAscii(text.toWellFormed())
    .replaceAll('@', '\u0140')
    .replaceAll('.', '\u012e')
    .replace(/[\0-/:-`{-\x7f]/g, (character) => String.fromCharCode(0x100 + character.charCodeAt(0)))

/** The address of which this is the word. */
export const fromOneWord = (word: string): string =>
  word.replace(/[\u0100-\u017f]/g, (character) => String.fromCharCode(character.charCodeAt(0) - 0x100))

/** The words of a shard that begin so, as limits of a range, and the length of what they all start with. */
export function toWordRange(shard: number, accountId: number, beginning: string) {
  const prefix = toShardPrefix(shard, accountId)
  const first = prefix + toOneWord(beginning)
  return { first, last: `${first}\u{10ffff}`, prefixLength: prefix.length }
}

/** What the words of a shard start with. */
const toShardPrefix = (shard: number, accountId: number): string => `${shard}a${accountId}x`

/** A text of which only the whole is searched, as one word. */
const toExactWord = (accountId: number, text: string): string => `a${accountId}x${Buffer.from(text).toString('hex')}`

/** What of an email is indexed. */
export interface IndexedEmail {
  readonly id: number
  readonly accountId: number
  readonly domainId: number
  readonly streamId: number
  /** In header form, as the recipients. */
  readonly sender: string
  readonly recipients: readonly string[]
  readonly subject: string
  readonly tags: readonly string[]
  /** The Message-ID that its client chose; another is derived from the id of the email, by which it is found. */
  readonly messageId: string | null
}

export const COLUMNS = ['recipient', 'sender', 'name', 'subject', 'tag', 'stream'] as const

/**
 * The values of COLUMNS. Besides each address, its domain is a word; names are also the further words of a local part,
 * as in `bob.brown@`. The signing domain is a word beside the stream, because every email has one.
 */
export function toIndexRow(email: IndexedEmail): string[] {
  const { accountId } = email
  const prefix = toShardPrefix(shardOf(email.id), accountId)
  const join = (words: readonly string[]) => (words.length === 0 ? '' : prefix + words.join(` ${prefix}`))
  const sender = splitMailbox(email.sender)
  const recipients = email.recipients.map(splitMailbox)
  return [
    join([...new Set(recipients.flatMap(toAddressWords))]),
    join(toAddressWords(sender)),
    join([...recipients.flatMap(toNameWords), ...toWords(sender.name)]),
    join(toWords(email.subject)),
    email.tags.map((tag) => toExactWord(accountId, tag)).join(' '),
    `s${email.streamId} d${email.domainId}${email.messageId === null ? '' : ` ${toExactWord(accountId, email.messageId)}`}`,
  ]
}

interface MailboxParts {
  readonly name: string
  readonly localPart: string
  /** With its `@`. */
  readonly atDomain: string
}

/** Splits a stored mailbox, which is valid. */
function splitMailbox(mailbox: string): MailboxParts {
  const open = mailbox.lastIndexOf('<')
  const address = open === -1 ? mailbox : mailbox.slice(open + 1, -1)
  const at = address.lastIndexOf('@')
  return {
    name: open === -1 ? '' : mailbox.slice(0, open),
    localPart: address.slice(0, Math.max(0, at)),
    atDomain: address.slice(Math.max(0, at)),
  }
}

function toAddressWords({ localPart, atDomain }: MailboxParts): string[] {
  const domain = toOneWord(atDomain)
  return [toOneWord(localPart) + domain, domain]
}

const toNameWords = ({ name, localPart }: MailboxParts): string[] => [...toWords(name), ...toWords(localPart).slice(1)]

export interface EmailSearch {
  /** A recipient of any kind, `@` and a domain: any recipient there, or how either begins. Case is ignored. */
  readonly to?: string | undefined
  /** The same for the sender. */
  readonly from?: string | undefined
  /** Words that the subject contains. */
  readonly subject?: string | undefined
  /** Words, each of which begins an address, a domain, or a word of a name or of the subject. */
  readonly text?: string | undefined
  /** The same, of recipients alone: words that each begin an address, its domain, or a word of a name. */
  readonly person?: string | undefined
  readonly tag?: string | undefined
  readonly streamId?: number | undefined
  /** Row ids of signing domains; an email matches if it has one of them. */
  readonly domainIds?: readonly number[] | undefined
  /** A Message-ID that the email's client chose, with angle brackets. */
  readonly clientMessageId?: string | undefined
}

/** A condition in a shard, whose words start with `prefix`. */
type Term = (prefix: string) => string

/** The parts of an FTS5 query; an email matches if it matches all. */
export interface Match {
  /** Those that are the same in all shards. */
  readonly whole: readonly string[]
  readonly sharded: readonly Term[]
  readonly accountId: number
}

/** The FTS5 query for a shard. */
export const formatMatch = ({ whole, sharded, accountId }: Match, shard: number): string =>
  [...whole, ...sharded.map((term) => term(toShardPrefix(shard, accountId)))].join(' AND ')

/** Throws a 422 for an unusable address, subject or text. */
export function buildMatch(accountId: number, search: EmailSearch): Match {
  const { to, from, subject, text, person, tag, streamId, domainIds, clientMessageId } = search
  const whole = [
    tag === undefined ? '' : `tag : "${toExactWord(accountId, readTag(tag))}"`,
    streamId === undefined ? '' : `stream : "s${streamId}"`,
    domainIds === undefined ? '' : `stream : (${domainIds.map((id) => `"d${id}"`).join(' OR ')})`,
    clientMessageId === undefined ? '' : toMessageIdQuery(accountId, clientMessageId),
  ].filter((query) => query !== '')
  const sharded = [
    ...(to === undefined ? [] : [toAddressTerm('to', 'recipient', to)]),
    ...(from === undefined ? [] : [toAddressTerm('from', 'sender', from)]),
    ...(subject === undefined ? [] : parseWords('subject', subject).map(toSubjectTerm)),
    ...(text === undefined ? [] : parseText(text).map((word) => toTextTerm(accountId, word))),
    ...(person === undefined ? [] : parseText(person).map((word) => toPersonTerm(word))),
  ]
    // Longer words are rarer.
    .sort((a, b) => b('').length - a('').length)
  return { whole, sharded, accountId }
}

/** More than the longest address and Message-ID that are stored. */
const MAX_TEXT_LENGTH = 500

const parseWords = (field: string, text: string, maxLength?: number): string[] =>
  parseSearchedWords(field, text, { isWord: (word) => toWords(word).length > 0, maxLength })

/** The words of `q`. */
const parseText = (text: string): string[] =>
  parseWords('q', text, MAX_TEXT_LENGTH).map((word) => word.replace(AROUND_WORD, ''))

function readTag(tag: string): string {
  if (tag === '') throw invalid('tag', 'tag must not be empty.')
  return tag
}

const toMessageIdQuery = (accountId: number, messageId: string): string =>
  `stream : "${toExactWord(accountId, messageId)}"`

const toSubjectTerm =
  (word: string): Term =>
  (prefix) =>
    `subject : (${toAllQuery(prefix, word)})`

/** Emails that have all words of a text. */
const toAllQuery = (prefix: string, text: string): string =>
  toWords(text)
    .map((word) => `"${prefix}${word}"`)
    .join(' AND ')

const ADDRESSES = '{recipient sender}'

/** What people write around a word or an address, and characters that only direct the writing. */
const AROUND_WORD = /^[<>"'(),;:[\]*]+|(?<![<>"'(),;:[\]*])[<>"'(),;:[\]*]+$|\p{Cf}+/gu

/** An address as it is stored, with a domain in A-labels; another word as it is. */
function toStoredForm(word: string): string {
  const mailbox = parseMailbox(word)
  return mailbox.kind === 'ok' ? mailbox.address : word
}

/** Emails of which an address, its domain, or a word of a name or of the subject begins so. */
function toTextTerm(accountId: number, word: string): Term {
  const beginning = toOneWord(toStoredForm(word))
  if (word.startsWith('@')) return (prefix) => `${ADDRESSES} : "${prefix}${beginning}" *`
  if (word.includes('@')) {
    const messageId = toMessageIdQuery(accountId, `<${word}>`)
    return (prefix) => `(${ADDRESSES} : "${prefix}${beginning}" * OR ${messageId})`
  }
  // Of one word, the beginning is looked up once for addresses, names and subjects.
  const isPlain = toWords(word)[0] === beginning
  const atDomain = toOneWord(`@${word}`)
  return (prefix) => {
    const address = `"${prefix}${beginning}" * OR "${prefix}${atDomain}" *`
    return isPlain
      ? `(${address})`
      : `(${ADDRESSES} : (${address}) OR {name subject} : (${toAllQuery(prefix, word)} *))`
  }
}

const toPersonTerm = (word: string): Term => {
  const [beginning, atDomain] = [toOneWord(toStoredForm(word)), toOneWord(`@${word}`)]
  return (prefix) => {
    const name = word.includes('@') ? '' : ` OR name : (${toAllQuery(prefix, word)} *)`
    return `(recipient : ("${prefix}${beginning}" * OR "${prefix}${atDomain}" *)${name})`
  }
}

/** Returns whether a name has all words of `q`, by their beginning. */
export function createNameTest(text: string): (name: string) => boolean {
  const searched = parseText(text).flatMap(toWords)
  return (name) => {
    const words = toWords(name)
    return searched.every((word) => words.some((other) => other.startsWith(word)))
  }
}

/** Returns whether the words of `q` are those of a person, as `EmailSearch.person` finds them. */
export function createPersonTest(text: string): (address: string, name: string) => boolean {
  const searched = parseText(text).map((word) => lowerAscii(toStoredForm(word)))
  return (address, name) => {
    const { localPart, atDomain } = splitMailbox(lowerAscii(address))
    const words = [...toWords(localPart).slice(1), ...toWords(name)]
    return searched.every(
      (word) =>
        address.toLowerCase().startsWith(word) ||
        atDomain.startsWith(word) ||
        atDomain.startsWith(`@${word}`) ||
        (!word.includes('@') && toWords(word).every((part) => words.some((other) => other.startsWith(part)))),
    )
  }
}

function toAddressTerm(field: string, column: string, text: string): Term {
  const address = readAddress(field, text)
  const word = toOneWord(address.text)
  return (prefix) => `${column} : "${prefix}${word}"${address.isWhole ? '' : ' *'}`
}

/** A domain of an address as a search: `@example.com`. */
const AT_DOMAIN = /^\s*@(?=[^\s<>@]+\s*$)/
const MAX_BEGINNING_LENGTH = 320

/** Returns the address, or `@` and the domain, in the form in which addresses are stored; or how one begins. */
function readAddress(field: string, text: string): { readonly text: string; readonly isWhole: boolean } {
  const isDomain = AT_DOMAIN.test(text)
  const mailbox = parseMailbox(isDomain ? text.replace(AT_DOMAIN, 'x@') : text)
  if (mailbox.kind === 'ok') return { text: isDomain ? `@${mailbox.domain}` : mailbox.address, isWhole: true }
  const beginning = text.trim()
  if (beginning.length <= MAX_BEGINNING_LENGTH && isBeginning(beginning)) return { text: beginning, isWhole: false }
  throw invalid(
    field,
    `${field} must be an email address such as bob@example.com, @example.com for all of a domain, or how either begins. ${mailbox.reason}`,
  )
}

const isBeginning = (text: string): boolean => !/[\s<>]/.test(text) && /[^@]/.test(text) && text.split('@').length <= 2

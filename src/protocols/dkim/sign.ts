/**
 * @module Signs a finished message with DKIM (RFC 6376): rsa-sha256 or ed25519-sha256 (RFC 8463), relaxed/relaxed. The
 * signature has no t= and x= tags, which would need a clock, so the same message and key always give the same bytes.
 * Synchronous. Never changes its input, never uses the network.
 */
import { createHash, type KeyObject, sign } from 'node:crypto'
import { CanonicalBody } from './body-hash.ts'

/**
 * Fields that are signed when present: those of RFC 6376 §5.4.1, and those that mailbox providers require of bulk
 * senders (RFC 8058 §4, Feedback-ID).
 */
export const SIGNED_HEADER_NAMES: readonly string[] =
  `from to cc subject date message-id reply-to mime-version content-type content-transfer-encoding list-unsubscribe
  list-unsubscribe-post list-id in-reply-to references feedback-id`.split(/\s+/)

/**
 * Fields that must not be added in transit (RFC 6376 §5.4.2, §8.15): each states what the message is, from whom or to
 * whom, and readers show or obey an added field. The signature lists each of them once more than it occurs, even when
 * it does not occur. Sender is not among them, because relays add it.
 */
export const OVERSIGNED_HEADER_NAMES: readonly string[] =
  'from to cc subject date reply-to mime-version content-type list-unsubscribe list-unsubscribe-post'.split(' ')

/** A private key with the algorithm of its signatures. */
export interface DkimSigner {
  /** The a= tag. */
  readonly algorithm: 'rsa-sha256' | 'ed25519-sha256'
  /** @param data the canonical fields */
  sign(data: Uint8Array): Buffer
}

export interface Signature {
  /** Signing domain in A-labels, the d= tag. */
  readonly domain: string
  /** The s= tag. */
  readonly selector: string
  readonly signer: DkimSigner
}

export interface SignOptions extends Pick<Signature, 'domain' | 'selector'> {
  /** An RSA or Ed25519 key from `createPrivateKey`. Create it once: parsing PEM costs as much as signing. */
  readonly privateKey: KeyObject
}

/** A signer by node:crypto; throws when the key is neither RSA nor Ed25519, which is a bug in the caller. */
export function createDkimSigner(privateKey: KeyObject): DkimSigner {
  switch (privateKey.asymmetricKeyType) {
    case 'rsa':
      return { algorithm: 'rsa-sha256', sign: (data) => sign('sha256', data, privateKey) }
    case 'ed25519':
      // RFC 8463 §3: Ed25519 signs the SHA-256 hash of the fields, not the fields.
      return {
        algorithm: 'ed25519-sha256',
        sign: (data) => sign(null, createHash('sha256').update(data).digest(), privateKey),
      }
    default:
      throw new Error('the DKIM key must be an RSA or Ed25519 key')
  }
}

interface HeaderField {
  /** Lower-case name. */
  readonly key: string
  /** The whole field with its folding, one character per octet, without the final CRLF. */
  readonly line: string
}

const END_OF_HEADER = Buffer.from('\r\n\r\n')
const TAG_DOMAIN = /^[A-Za-z0-9.-]+$/
const TAG_SELECTOR = /^[A-Za-z0-9._-]+$/

/**
 * Returns the message with a DKIM-Signature field at the top; throws as `createSignatureFields` does.
 * @param message complete message with CRLF line ends
 */
export function signMessage(message: Uint8Array, { domain, selector, privateKey }: SignOptions): Uint8Array {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
  const end = bytes.indexOf(END_OF_HEADER)
  const body = new CanonicalBody('relaxed')
  const hash = body.addHash('sha256')
  if (end !== -1) body.update(bytes.subarray(end + END_OF_HEADER.length))
  const header = end === -1 ? bytes : bytes.subarray(0, end)
  const signature = { domain, selector, signer: createDkimSigner(privateKey) }
  return Buffer.concat([createSignatureFields(header, hash.digest('base64'), [signature]), bytes])
}

/**
 * Returns a DKIM-Signature field for each signature, with its CRLF, to be placed before the first field of a message.
 * Each signs every instance of a signed field, and none of the others. Throws when the message has no From, or a tag
 * value is invalid: each is a bug in the caller.
 *
 * @param header with CRLF line ends
 * @param bodyHash of the relaxed body, in base64
 */
export function createSignatureFields(header: Buffer, bodyHash: string, signatures: readonly Signature[]): Buffer {
  const signed = selectFields(parseFields(header))
  const names = [...signed.map((field) => field.key), ...OVERSIGNED_HEADER_NAMES].join(':')
  const canonical = signed.map((field) => `${canonicalise(field)}\r\n`).join('')
  const fields = signatures.map(({ domain, selector, signer }) => {
    if (!TAG_DOMAIN.test(domain)) throw new Error('the DKIM domain must be in A-labels')
    if (!TAG_SELECTOR.test(selector)) throw new Error('the DKIM selector has an invalid character')
    const unsigned = [
      `DKIM-Signature: v=1; a=${signer.algorithm}; c=relaxed/relaxed; q=dns/txt;`,
      `d=${domain.toLowerCase()}; s=${selector};`,
      `bh=${bodyHash};`,
      `h=${foldNames(names)};`,
      'b=',
    ].join('\r\n ')
    // RFC 6376 §3.7: the signature field itself comes last, with an empty b= and without a CRLF.
    const data = Buffer.from(canonical + canonicalise({ key: 'dkim-signature', line: unsigned }), 'latin1')
    return `${unsigned}${foldBase64(signer.sign(data).toString('base64'))}\r\n`
  })
  return Buffer.from(fields.join(''), 'latin1')
}

function parseFields(header: Buffer): HeaderField[] {
  const fields: HeaderField[] = []
  for (const line of header.toString('latin1').split(/\r\n(?![ \t])/)) {
    const colon = line.indexOf(':')
    if (colon > 0) fields.push({ key: line.slice(0, colon).trim().toLowerCase(), line })
  }
  return fields
}

/**
 * Selects the fields to sign. Fields of the same name are ordered from last to first, as verifiers read them. RFC 6376
 * §5.4.2.
 */
function selectFields(fields: readonly HeaderField[]): HeaderField[] {
  const byName = Map.groupBy(fields, ({ key }) => key)
  if (!byName.has('from')) throw new Error('a message without From cannot be signed')
  return SIGNED_HEADER_NAMES.flatMap((name) => byName.get(name)?.toReversed() ?? [])
}

/** Returns a field in relaxed form (RFC 6376 §3.4.2), without a CRLF. White space is SP and HTAB only. */
function canonicalise({ key, line }: HeaderField): string {
  const value = line
    .slice(line.indexOf(':') + 1)
    .replace(/\r?\n/g, '')
    .replace(/[ \t]+/g, ' ')
  const from = value.startsWith(' ') ? 1 : 0
  return `${key}:${value.slice(from, value.endsWith(' ') ? Math.max(from, value.length - 1) : value.length)}`
}

/** Folds h= next to its colons (RFC 6376 §3.5). */
const foldNames = (names: string): string =>
  names.replace(NAMES_OF_A_LINE, (line, offset: number) => (offset === 0 ? line : `\r\n ${line}`))

/** As many names as fit into a line, with their colons. */
const NAMES_OF_A_LINE = /.{1,70}(?::|$)/g

const foldBase64 = (base64: string): string => base64.match(/.{1,72}/g)?.join('\r\n ') ?? ''

/**
 * @module Authenticates a received message by mailauth, strictly as the RFCs say: SPF (RFC 7208), DKIM (RFC 6376, 8301, 8463), DMARC (RFC 9989),
 * ARC (RFC 8617), and forward-confirmed reverse DNS (RFC 8601 §3). Bounded in time, DNS questions and signatures. Decides nothing about the message.
 */
import type { ARCData } from 'mailauth'
import { arc } from 'mailauth/lib/arc'
import { evaluateDmarc } from 'mailauth/lib/dmarc'
import { spf } from 'mailauth/lib/spf'
import type { Clock } from '#platform/clock.ts'
import { toALabels } from '../address/domain.ts'
import type { Resolver } from '../dns/resolver.ts'
import { parseIpv6Groups } from '../dns/special-addresses.ts'
import { createSource, type MessageSource } from '../mime/source.ts'
import { createLimitedDns, type LimitedDns } from './limited-dns.ts'
import { prepareMessage } from './prepare.ts'
import type { AuthenticationResult, Verdict } from './result.ts'
import { checkReverseDns } from './reverse-dns.ts'
import { SignatureVerifier } from './verifier.ts'

/** What the SMTP session said, and who we are. */
export interface SessionFacts {
  readonly clientIp: string
  readonly helo: string
  /** `''`: the null reverse-path. */
  readonly mailFrom: string
  /** Our own name, the authserv-id. */
  readonly hostname: string
}

type Details = AuthenticationResult['details']
type DmarcEvaluation = Awaited<ReturnType<typeof evaluateDmarc>>

/** For all of DNS together, unless told. */
const TIMEOUT_MS = 20_000
/** A hundred for a message. DMARC's walks share their names, and DKIM and ARC their keys; SPF alone could ask 111. */
const MAX_QUERIES = { reverse: 11, spf: 40, keys: 25, dmarc: 24 } as const
/** RFC 8301 §3.2. */
const MIN_RSA_BITS = 1024
const MAX_COMMENT_LENGTH = 300
const MAX_NAME_LENGTH = 255

/**
 * What the checks say of a message, which is as it came in, without fields that we added. Whatever has not ended after `timeoutMs` of the clock, or
 * would need more DNS than its share, is a temperror (a permerror for SPF's number of look-ups). Never rejects.
 */
export async function authenticate(
  message: Uint8Array | MessageSource,
  facts: SessionFacts,
  resolver: Resolver,
  clock: Clock,
  timeoutMs = TIMEOUT_MS,
): Promise<AuthenticationResult> {
  const source = message instanceof Uint8Array ? createSource(message) : message
  const deadline = Promise.withResolvers<void>()
  const timer = clock.after(timeoutMs, deadline.resolve)
  try {
    const ask = (maxQueries: number) => createLimitedDns(resolver, maxQueries, deadline.promise)
    // Made before anything is waited for, so that it knows when the time is over.
    const dmarcDns = ask(MAX_QUERIES.dmarc)
    const clientIp = normaliseIp(facts.clientIp)
    const [iprev, sender, signed] = await Promise.all([
      checkReverseDns(ask(MAX_QUERIES.reverse), clientIp),
      checkSpf(ask(MAX_QUERIES.spf), facts, clientIp),
      checkSignatures(ask(MAX_QUERIES.keys), source, clock),
    ])
    const { dmarc, isAligned: alignedDomains } = await checkDmarc(dmarcDns, sender, signed)
    return toResult({ spf: sender.details, dkim: toDkimDetails(signed, alignedDomains), dmarc, arc: signed.arc, iprev })
  } finally {
    timer.cancel()
  }
}

function toResult(details: Details): AuthenticationResult {
  return {
    spf: details.spf.result,
    dkim: pickBest(details.dkim),
    dmarc: details.dmarc.result,
    arc: details.arc.result,
    iprev: details.iprev.result,
    details,
  }
}

// ---- SPF

interface SpfCheck {
  readonly details: Details['spf']
  /** The domain that passed; undefined: none did. */
  readonly passedDomain: string | undefined
}

async function checkSpf({ ask }: LimitedDns, facts: SessionFacts, clientIp: string): Promise<SpfCheck> {
  const provided = { client_ip: facts.clientIp, helo: cleanText(facts.helo), identity: identityOf(facts) }
  try {
    const found = await spf({
      sender: facts.mailFrom,
      ip: clientIp,
      helo: facts.helo,
      mta: facts.hostname,
      resolver: ask,
      strict: true,
    })
    const result = toVerdict(found.status.result)
    return {
      details: {
        result,
        domain: cleanText(found.domain === '-' ? '' : found.domain),
        ...provided,
        // It begins with our own name.
        comment: cleanComment(found.status.comment, `${facts.hostname}: `),
      },
      passedDomain: result === 'pass' ? found.domain : undefined,
    }
  } catch (error) {
    return {
      details: { result: 'temperror', domain: '', ...provided, comment: cleanErrorMessage(error) },
      passedDomain: undefined,
    }
  }
}

const identityOf = ({ mailFrom }: SessionFacts): 'helo' | 'mailfrom' => (mailFrom === '' ? 'helo' : 'mailfrom')

// ---- DKIM and ARC

interface SignatureCheck {
  /** Undefined: nothing was verified, for the reason in `failure`. */
  readonly verification: SignatureVerifier | undefined
  readonly failure: { readonly result: Verdict; readonly comment: string } | undefined
  readonly arc: Details['arc']
}

async function checkSignatures(dns: LimitedDns, source: MessageSource, clock: Clock): Promise<SignatureCheck> {
  try {
    const prepared = prepareMessage(source)
    if (prepared.kind === 'refused') return buildUnverified('permerror', prepared.reason)
    const verification = new SignatureVerifier({
      resolver: dns.ask,
      minBitLength: MIN_RSA_BITS,
      curTime: new Date(clock.now()),
      strict: true,
    })
    await verification.verify(prepared.pieces())
    return { verification, failure: undefined, arc: await checkArc(dns, verification) }
  } catch (error) {
    return buildUnverified('temperror', cleanErrorMessage(error))
  }
}

const buildUnverified = (result: Verdict, comment: string): SignatureCheck => ({
  verification: undefined,
  failure: { result, comment },
  arc: { result, instances: 0, comment },
})

async function checkArc({ ask, failedNames }: LimitedDns, { arc: data }: SignatureVerifier): Promise<Details['arc']> {
  if (data === undefined) return { result: 'none', instances: 0, comment: null }
  // The type of what the one function gives is narrower than what the other takes.
  const found = await arc(data as unknown as ARCData, { resolver: ask, minBitLength: MIN_RSA_BITS, strict: true })
  const instances = typeof found.i === 'number' ? found.i : 0
  const result = toVerdict(found.status.result)
  const seals = data.chain === false ? [] : (data.chain ?? [])
  // mailauth fails a chain whose keys it could not fetch, but that is nothing known.
  const isUnknown =
    result === 'fail' &&
    ((found.signature !== undefined && found.signature !== false && found.signature.status.result === 'temperror') ||
      seals.some((set) => failedNames.has(keyNameOf(set['arc-seal']?.parsed))))
  return isUnknown
    ? { result: 'temperror', instances, comment: 'a key of the chain could not be looked up' }
    : { result, instances, comment: cleanComment(found.status.comment) }
}

function keyNameOf(tags: Readonly<Record<string, unknown>> | undefined): string {
  const value = (name: string): string => {
    const tag = tags?.[name]
    return typeof tag === 'object' && tag !== null && 'value' in tag ? String(tag.value) : ''
  }
  return `${value('s')}._domainkey.${value('d')}`.toLowerCase()
}

function toDkimDetails({ verification, failure }: SignatureCheck, alignedDomains: IsAligned): Details['dkim'] {
  if (failure !== undefined) return [{ ...failure, domain: '', selector: '', algorithm: null, aligned: false }]
  return (verification?.results ?? []).flatMap((signature) => {
    const { signingDomain, selector, algo, status } = signature
    // mailauth's way of saying that there is no signature.
    if (signingDomain === undefined && status.result === 'none') return []
    return {
      result: toVerdict(status.result),
      domain: cleanText(signingDomain),
      selector: cleanText(selector),
      algorithm: algo === undefined ? null : cleanText(algo),
      aligned: alignedDomains(signingDomain ?? '', status.result === 'pass'),
      comment: cleanComment(status.comment) ?? cleanComment(findPolicy(status)),
    }
  })
}

/** Why a signature is against the rules: `weak-key`, `weak-algorithm`. */
function findPolicy(status: object): unknown {
  const policy = 'policy' in status ? status.policy : undefined
  return typeof policy === 'object' && policy !== null && 'dkim-rules' in policy ? policy['dkim-rules'] : undefined
}

const BEST_FIRST: readonly Verdict[] = ['pass', 'temperror', 'policy', 'fail', 'neutral', 'permerror', 'none']

/** Of those that pass if any does; else of the aligned ones if there is one. */
function pickBest(signatures: Details['dkim']): Verdict {
  const rank = ({ result, aligned }: Details['dkim'][number]): number =>
    (result === 'pass' ? 0 : aligned ? 10 : 20) + BEST_FIRST.indexOf(result)
  return [...signatures].sort((a, b) => rank(a) - rank(b))[0]?.result ?? 'none'
}

// ---- DMARC

/** Whether a signature's domain is that of the author, as DMARC sees it. */
type IsAligned = (signingDomain: string, passes: boolean) => boolean

interface DmarcCheck {
  readonly dmarc: Details['dmarc']
  readonly isAligned: IsAligned
}

/** RFC 9989 §5.3.1: without exactly one author domain there is nothing to evaluate. */
const NO_AUTHOR_REASONS: Readonly<Record<string, string>> = {
  'no-author-domain': 'the From field has no domain',
  'multiple-author-domains': 'the From field has addresses of several domains',
  'invalid-author-domain': 'the From field has an address without a valid domain',
  'multiple-from-fields': 'there are several From fields',
}

async function checkDmarc({ ask }: LimitedDns, sender: SpfCheck, signed: SignatureCheck): Promise<DmarcCheck> {
  const { verification, failure } = signed
  if (verification === undefined) return buildUnevaluated(failure?.result ?? 'permerror', failure?.comment ?? null)
  try {
    const evaluation = await evaluateDmarc({
      headerFrom: verification.headerFrom,
      fromFields: verification.fromFields,
      spfDomains: sender.passedDomain === undefined ? [] : [sender.passedDomain],
      dkimDomains: verification.results.flatMap(({ signingDomain, status }) =>
        status.result === 'pass' && signingDomain !== undefined
          ? { domain: signingDomain, underSized: status.underSized ?? 0 }
          : [],
      ),
      resolver: ask,
      strict: true,
    })
    return toDmarcCheck(evaluation, sender, verification)
  } catch (error) {
    return buildUnevaluated('temperror', cleanErrorMessage(error))
  }
}

const buildUnevaluated = (result: Verdict, comment: string | null): DmarcCheck => ({
  dmarc: { result, domain: '', policy: null, comment },
  isAligned: () => false,
})

function toDmarcCheck(
  { response, dkimAligned, reason }: DmarcEvaluation,
  sender: SpfCheck,
  { results }: SignatureVerifier,
): DmarcCheck {
  if (response === false)
    return buildUnevaluated('permerror', NO_AUTHOR_REASONS[reason ?? ''] ?? 'there is no author domain')
  const author = toComparable(response.status.header?.from ?? '')
  const organization = toComparable(response.domain || author)
  // For what did not pass no walk is made: whatever is below the author's organizational domain counts as aligned.
  const wouldAlign = (domain: string, isStrict: boolean | undefined): boolean =>
    isStrict === true ? toComparable(domain) === author : isSameOrBelow(toComparable(domain), organization)
  const result = toVerdict(response.status.result)
  // mailauth knows of what passed only; an aligned identifier about which DNS said nothing might have.
  const isUnknown =
    result === 'fail' &&
    ((sender.details.result === 'temperror' && wouldAlign(sender.details.domain, response.alignment?.spf.strict)) ||
      results.some(
        ({ status, signingDomain = '' }) =>
          status.result === 'temperror' && wouldAlign(signingDomain, response.alignment?.dkim.strict),
      ))
  return {
    dmarc: {
      result: isUnknown ? 'temperror' : result,
      domain: cleanText(author),
      policy: response.policy ?? null,
      comment: isUnknown
        ? 'SPF or DKIM could not be checked'
        : (cleanComment(response.status.comment) ?? cleanComment('error' in response ? response.error : undefined)),
    },
    isAligned: (domain, passes) =>
      passes ? dkimAligned?.has(toComparable(domain)) === true : wouldAlign(domain, response.alignment?.dkim.strict),
  }
}

/** For comparing: A-labels in lower case, without the root. */
const toComparable = (domain: string): string => (toALabels(domain) ?? domain).toLowerCase().replace(/(?<!\.)\.+$/, '')

const isSameOrBelow = (domain: string, parent: string): boolean =>
  parent !== '' && (domain === parent || domain.endsWith(`.${parent}`))

// ---- What strangers wrote, made fit to be stored and told

const VERDICTS: readonly string[] = ['pass', 'fail', 'softfail', 'neutral', 'none', 'policy', 'temperror', 'permerror']

const isVerdict = (text: unknown): text is Verdict => typeof text === 'string' && VERDICTS.includes(text)

/** What mailauth calls a verdict is one, unless it has a new word. */
const toVerdict = (text: unknown): Verdict => (isVerdict(text) ? text : 'permerror')

// C0 and C1 controls, and what turns the direction of writing.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

const cleanText = (text: string | undefined, maxLength = MAX_NAME_LENGTH): string =>
  (text ?? '').replace(UNPRINTABLE, ' ').trim().slice(0, maxLength).toWellFormed()

function cleanComment(comment: unknown, prefix = ''): string | null {
  if (typeof comment !== 'string') return null
  return cleanText(comment.startsWith(prefix) ? comment.slice(prefix.length) : comment, MAX_COMMENT_LENGTH) || null
}

const cleanErrorMessage = (error: unknown): string =>
  cleanText(error instanceof Error ? error.message : String(error), MAX_COMMENT_LENGTH)

/** Dotted for an IPv4 address in IPv6 form, and without a zone. */
function normaliseIp(ip: string): string {
  const [address = ''] = ip.split('%')
  if (!address.includes(':')) return address
  const groups = parseIpv6Groups(address)
  if (groups.slice(0, 5).some((group) => group !== 0) || groups[5] !== 0xffff) return address
  return groups
    .slice(6)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.')
}

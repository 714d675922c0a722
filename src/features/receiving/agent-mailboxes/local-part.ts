/** @module Local parts of mailboxes: validates, generates and normalises them. Pure. */
import { invalid } from '#platform/errors.ts'
import { randomBelow } from '#platform/ids.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'

/** RFC 5321 §4.5.3.1.1. */
const MAX_OCTETS = 64
/** RFC 5321 §4.1.2, Dot-string, in lower case. */
const DOT_STRING = /^[a-z0-9!#$%&'*+\-/=?^_`{|}~]+(?:\.[a-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/
/** Role addresses. RFC 2142 requires that people read them, so their mail goes to the operator. */
const ROLES: readonly string[] = ['postmaster', 'abuse']
/** The format of return paths and unsubscribe addresses (protocols/address/verp.ts). */
const RETURN_PATH = /^[bu]-[a-z2-7]{32}$/

/** Returns the local part in lower case; throws 422 on `local_part` for one that is not allowed. */
export function requireValidLocalPart(text: string): string {
  const localPart = text.trim().toLowerCase()
  if (localPart.length > MAX_OCTETS || !DOT_STRING.test(localPart))
    throw invalid(
      'local_part',
      `local_part must have 1 to ${MAX_OCTETS} of a to z, 0 to 9 and !#$%&'*+-/=?^_\`{|}~, with dots between them.`,
      'invalid_local_part',
    )
  if (ROLES.includes(localPart))
    throw invalid(
      'local_part',
      `"${localPart}" is reserved for the operator; choose another local part.`,
      'invalid_local_part',
    )
  if (RETURN_PATH.test(localPart))
    throw invalid('local_part', 'A local part like a return path is reserved; choose another.', 'invalid_local_part')
  return localPart
}

/** Local parts of mailboxes to look up for an address, in order: as it is, then without its `+detail`. */
export function listLookupKeys(localPart: string): string[] {
  const key = normaliseAddress(`${localPart}@x`).slice(0, -2)
  const plus = key.indexOf('+')
  return plus > 0 ? [key, key.slice(0, plus)] : [key]
}

const ADJECTIVES =
  'amber bold brave brisk calm clear clever cosy crisp eager early fair fresh gentle glad golden grand green happy honest jolly keen kind late light lively lucky mellow merry mild neat nimble noble open plain proud quick quiet rapid ready rosy royal sharp shiny silent silver smart snowy soft solid spry steady sunny swift tidy true upbeat vivid warm wide wise witty young zesty'.split(
    ' ',
  )
const NOUNS =
  'acorn badger beacon birch bison breeze brook cedar cherry clover comet coral crane creek daisy delta dune eagle ember falcon fern finch fjord forest fox garden glacier harbour hazel heron hill ibis island ivy jasmine lagoon lark laurel lilac linden lotus maple meadow mesa moss oak olive orchid otter owl panda pebble pine plum poppy prairie quail raven reef river robin spruce stone swan'.split(
    ' ',
  )
const NUMBER_COUNT = 10_000

/** A random local part, such as `calm-otter-0482`, one of about 40 million. */
export const createRandomLocalPart = (): string =>
  `${pickRandom(ADJECTIVES)}-${pickRandom(NOUNS)}-${String(randomBelow(NUMBER_COUNT)).padStart(4, '0')}`

const pickRandom = (words: readonly string[]): string => words[randomBelow(words.length)] ?? ''

/**
 * @module The replies of `test/corpus/replies/replies.txt`: how the service classifies each, in a session and in a DSN.
 */
import { describe, expect, test } from 'bun:test'
import { classifyFailure } from '#features/receiving/bounces/apply.ts'
import { isRetriedUntilExpiry, toBounceType } from '#features/sending/delivery/protocol.ts'
import { toVerdict } from '#features/sending/delivery/verdict/outcome.ts'
import { classifyReply, isPermanentlyInvalid } from '#features/sending/delivery/verdict/replies.ts'
import { parseReply, REPLIES, type ReplyCase, SOURCES } from '#test/corpus/replies/replies.ts'

const classifyCase = ({ reply, stage }: ReplyCase) =>
  stage === 'connect'
    ? { category: classifyReply(reply, 'session'), isDead: false }
    : { category: classifyReply(reply, stage), isDead: isPermanentlyInvalid(reply, stage) }

const casesByProvider = Map.groupBy(REPLIES, ({ who }) => who)

describe('a reply has the meaning that its source documents', () => {
  // Proves: status-23
  test.each([...casesByProvider.keys()])('%s', (who) => {
    const cases = casesByProvider.get(who) ?? []
    const told = cases.map((each) => ({ text: each.text, ...classifyCase(each) }))
    expect(told).toEqual(cases.map(({ text, category, isDead }) => ({ text, category, isDead })))
  })
})

test('the set has at least 206 replies, each once and with a source', () => {
  expect(REPLIES.length).toBeGreaterThanOrEqual(206)
  expect(REPLIES.filter(({ source }) => !SOURCES.has(source))).toEqual([])
  expect(new Set(REPLIES.map(({ who, stage, text }) => `${who} ${stage} ${text}`)).size).toBe(REPLIES.length)
})

const REJECTIONS = REPLIES.filter(({ reply, stage }) => reply.code >= 500 && stage !== 'connect')

// Proves: status-24
test('replies about the sender are deferred, and only replies about the recipient are hard', () => {
  const ends = REJECTIONS.map(({ text, reply, stage }) => {
    const verdict = toVerdict({ kind: 'refused', reply, phase: stage as 'mail' | 'rcpt' | 'data' | 'body' })
    return [text, verdict.kind === 'bounced' ? verdict.bounceType : verdict.kind]
  })
  expect(ends).toEqual(
    REJECTIONS.map(({ text, category }) => [
      text,
      isRetriedUntilExpiry(category) ? 'deferred' : toBounceType(category),
    ]),
  )
  expect(new Set(ends.map(([, end]) => end))).toEqual(new Set(['hard', 'soft', 'deferred']))
})

// Proves: status-24
test('a DSN of a rejection has the same meaning, and never suppresses an address that the reply itself does not', () => {
  const told = REJECTIONS.filter(({ stage }) => stage === 'rcpt' || stage === 'body').map(({ text, reply, stage }) => {
    const command = stage === 'rcpt' ? 'RCPT TO command' : 'end of DATA command'
    const diagnostic = `host mx.receiver.test[192.0.2.9] said: ${reply.text} (in reply to ${command})`
    const { bounceCategory, isPermanentlyInvalid: isDead } = classifyFailure({
      status: reply.enhanced ?? null,
      diagnostic,
    })
    return { text, category: bounceCategory, isDead }
  })
  const wanted = new Map(REPLIES.map(({ text, category, isDead }) => [text, { text, category, isDead }]))
  const differing = told.filter(({ text, category, isDead }) => {
    const own = wanted.get(text)
    return own?.category !== category || own.isDead !== isDead
  })
  expect(differing).toEqual([])
})

describe('a 5.1.1 explained by other words suppresses no address', () => {
  const wordsOf = ({ reply }: ReplyCase) => reply.text.slice(4).replace(/^#?[45](?:\.\d{1,3}){2} /, '')
  /** Replies whose words name another cause, whatever their code. */
  const OTHER = REPLIES.filter((each) => {
    const byWords = classifyReply(parseReply(`550 ${wordsOf(each)}`), 'rcpt')
    return !each.isDead && byWords !== 'unknown' && byWords !== 'invalid_recipient'
  })
  test.each([...new Set(OTHER.map(({ who }) => who))])('in the words of %s', (who) => {
    const texts = OTHER.filter((each) => each.who === who).map((each) => `550 5.1.1 ${wordsOf(each)}`)
    expect(texts.filter((text) => isPermanentlyInvalid(parseReply(text), 'rcpt'))).toEqual([])
  })

  // Proves: suppress-8
  test.each([
    ['de', 'Das Postfach des Empfängers ist voll'],
    ['de', 'Empfang gesperrt, bitte später erneut versuchen'],
    ['fr', 'La boîte aux lettres du destinataire est pleine'],
    ['fr', 'Trop de messages pour ce destinataire'],
    ['es', 'El buzón del destinatario está lleno'],
    ['es', 'Remitente bloqueado'],
    ['it', 'La casella del destinatario è piena'],
    ['pt', 'A caixa de correio está cheia'],
    ['pt', 'Remetente bloqueado por excesso de mensagens'],
    ['pl', 'Skrzynka odbiorcy jest pełna'],
    ['pl', 'Zbyt wiele wiadomości'],
    ['nl', 'De mailbox van de ontvanger is vol'],
    ['nl', 'Afzender geblokkeerd'],
    ['ru', 'Почтовый ящик получателя переполнен'],
    ['ru', 'Отправитель заблокирован'],
    ['ja', '受信者のメールボックスが一杯です'],
    ['ja', '受信を拒否しました'],
    ['zh', '收件人邮箱已满'],
    ['zh', '发信频率过高，请稍后再试'],
    ['tr', 'Alıcının posta kutusu dolu'],
    ['sv', 'Mottagarens brevlåda är full'],
    ['el', 'Το γραμματοκιβώτιο είναι γεμάτο'],
  ])('%s: %s', (_, words) => {
    for (const text of [`550 5.1.1 ${words}`, `550 5.1.1 <bob@receiver.test>: Recipient address rejected: ${words}`])
      expect([text, isPermanentlyInvalid(parseReply(text), 'rcpt')]).toEqual([text, false])
    // Bytes in another encoding.
    const garbled = `550 5.1.1 ${words.replace(/[^\x00-\x7f]/g, '\ufffd')}`
    expect([garbled, isPermanentlyInvalid(parseReply(garbled), 'rcpt')]).toEqual([garbled, false])
  })
})

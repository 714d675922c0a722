import { describe, expect, test } from 'bun:test'
import { parsePath } from '#features/receiving/inbound/listener/commands.ts'

/** The address, then the parameters; or the kind of error. */
function read(command: 'MAIL' | 'RCPT', line: string): unknown {
  const path = parsePath(command, line)
  if (path.kind === 'syntax') return 'syntax'
  if (path.kind === 'unknown parameter') return `unknown ${path.name}`
  return [path.address, Object.fromEntries(path.parameters), ...(path.needsSmtpUtf8 ? ['SMTPUTF8'] : [])]
}

describe('MAIL', () => {
  test.each([
    ['the null reverse-path', 'MAIL FROM:<>', ['', {}]],
    [
      'parameters',
      'MAIL FROM:<a@b.test> SIZE=100 body=8BITMIME SMTPUTF8',
      ['a@b.test', { SIZE: '100', BODY: '8BITMIME', SMTPUTF8: true }],
    ],
    ['spaces where none should be', 'mail from : <a@b.test>  SIZE=1 ', ['a@b.test', { SIZE: '1' }]],
    ['AUTH, which says nothing', 'MAIL FROM:<a@b.test> AUTH=<>', ['a@b.test', { AUTH: '<>' }]],
    ['AUTH with xtext', 'MAIL FROM:<a@b.test> AUTH=e+3Dmc2@b.test', ['a@b.test', { AUTH: 'e+3Dmc2@b.test' }]],
    ['a source route is ignored', 'MAIL FROM:<@one.test,@two.test:a@b.test>', ['a@b.test', {}]],
    [
      'a quoted local part with everything',
      'MAIL FROM:<"a b@c>\\"d"@b.test> SIZE=1',
      ['"a b@c>\\"d"@b.test', { SIZE: '1' }],
    ],
    ['dots at the edges, as some senders have them', 'MAIL FROM:<.a..b.@b.test>', ['.a..b.@b.test', {}]],
    ['an underscore in a domain', 'MAIL FROM:<a@my_host.b.test>', ['a@my_host.b.test', {}]],
    ['a domain of one label', 'MAIL FROM:<root@localhost>', ['root@localhost', {}]],
    ['a domain literal', 'MAIL FROM:<a@[IPv6:2001:db8::1]>', ['a@[IPv6:2001:db8::1]', {}]],
    ['an internationalised domain, as A-labels', 'MAIL FROM:<a@bücher.test>', ['a@xn--bcher-kva.test', {}]],
    [
      'a local part that is not ASCII',
      'MAIL FROM:<jürgen@b.test> SMTPUTF8',
      ['jürgen@b.test', { SMTPUTF8: true }, 'SMTPUTF8'],
    ],
    ['no brackets', 'MAIL FROM:a@b.test', 'syntax'],
    ['no closing bracket', 'MAIL FROM:<a@b.test', 'syntax'],
    ['no domain', 'MAIL FROM:<postmaster>', 'syntax'],
    ['nothing before the @', 'MAIL FROM:<@b.test>', 'syntax'],
    ['two unquoted @', 'MAIL FROM:<a@b@c.test>', 'syntax'],
    ['a root dot', 'MAIL FROM:<a@b.test.>', 'syntax'],
    ['a control character', 'MAIL FROM:<a\rb@c.test>', 'syntax'],
    ['a control character in quotes', 'MAIL FROM:<"a\tb"@c.test>', 'syntax'],
    ['a zero-width space', 'MAIL FROM:<a\u200bb@c.test>', 'syntax'],
    ['octets that are no UTF-8', 'MAIL FROM:<a\ufffd@c.test>', 'syntax'],
    ['a parameter twice', 'MAIL FROM:<a@b.test> SIZE=1 SIZE=2', 'syntax'],
    ['a parameter glued to the path', 'MAIL FROM:<a@b.test>SIZE=1', 'syntax'],
    ['a parameter that the server did not offer', 'MAIL FROM:<a@b.test> RET=HDRS', 'unknown RET'],
    ['another command', 'MAIL TO:<a@b.test>', 'syntax'],
    ['254 octets', `MAIL FROM:<${'a'.repeat(247)}@b.test>`, [`${'a'.repeat(247)}@b.test`, {}]],
    ['255 octets', `MAIL FROM:<${'a'.repeat(248)}@b.test>`, 'syntax'],
  ])('%s', (_, line, expected) => {
    expect(read('MAIL', line)).toEqual(expected)
  })
})

describe('RCPT', () => {
  test.each([
    ['postmaster without a domain (RFC 5321 §4.1.1.3)', 'RCPT TO:<PostMaster>', ['PostMaster', {}]],
    ['an address', 'RCPT TO:<a@B.Test>', ['a@b.test', {}]],
    ['no address at all', 'RCPT TO:<>', 'syntax'],
    ['a parameter that the server did not offer', 'RCPT TO:<a@b.test> NOTIFY=NEVER', 'unknown NOTIFY'],
  ])('%s', (_, line, expected) => {
    expect(read('RCPT', line)).toEqual(expected)
  })
})

/**
 * @module Two independent DKIM verifiers that get the key record from the test instead of DNS: mailauth, and dkimpy if
 * Python has it.
 */
import { existsSync } from 'node:fs'
import { dkimVerify } from 'mailauth/lib/dkim/verify'

/** Returns 'pass' or the verifier's result. */
export async function verifyWithMailauth(message: Uint8Array, record: string): Promise<string> {
  const result = await dkimVerify(Buffer.from(message), { resolver: async () => [[record]] })
  return result.results.map(({ status }) => status.result).join() || 'no signature'
}

const PYTHON = '/usr/bin/python3'

export const hasDkimpy = existsSync(PYTHON) && Bun.spawnSync([PYTHON, '-c', 'import dkim']).exitCode === 0

const VERIFY_ALL = `
import base64, dkim, json, sys
job = json.load(sys.stdin)
record = job["record"].encode()
print(json.dumps([dkim.verify(base64.b64decode(m), dnsfunc=lambda name, timeout=5: record) for m in job["messages"]]))
`

/** Returns one verdict per message, from one Python process. */
export function verifyWithDkimpy(messages: readonly Uint8Array[], record: string): boolean[] {
  const job = JSON.stringify({ record, messages: messages.map((message) => Buffer.from(message).toString('base64')) })
  const { stdout, stderr, exitCode } = Bun.spawnSync([PYTHON, '-c', VERIFY_ALL], { stdin: Buffer.from(job) })
  if (exitCode !== 0) throw new Error(stderr.toString())
  const verdicts: unknown = JSON.parse(stdout.toString())
  if (!Array.isArray(verdicts)) throw new Error('dkimpy gave no list')
  return verdicts.map((verdict) => verdict === true)
}

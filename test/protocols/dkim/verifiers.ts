/**
 * @module Two independent DKIM verifiers that get the key record from the test instead of DNS: mailauth, and dkimpy if
 * Python has it.
 */
import { existsSync } from 'node:fs'
import { dkimVerify } from 'mailauth/lib/dkim/verify'

/** The records by name; a lone one is at every name. */
export type KeyRecords = string | Readonly<Record<string, string>>

/** Returns 'pass' or the verifier's result, for each signature in the order of the fields. */
export async function verifyWithMailauth(message: Uint8Array, records: KeyRecords): Promise<string> {
  const resolver = async (name: string) => [[typeof records === 'string' ? records : (records[name] ?? '')]]
  const result = await dkimVerify(Buffer.from(message), { resolver })
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

/** Whether dkimpy can verify Ed25519, too. */
export const hasDkimpyEd25519 = hasDkimpy && Bun.spawnSync([PYTHON, '-c', 'import nacl.signing']).exitCode === 0

const VERIFY_EACH = `
import base64, dkim, json, sys
job = json.load(sys.stdin)
def verify(message):
    signer = dkim.DKIM(message)
    count = sum(1 for name, _ in signer.headers if name.lower() == b"dkim-signature")
    lookup = lambda name, timeout=5: job["records"].get(name.decode().rstrip("."), "").encode()
    def holds(i):
        try:
            return signer.verify(idx=i, dnsfunc=lookup)
        except dkim.ValidationError:
            return False
    return [holds(i) for i in range(count)]
print(json.dumps([verify(base64.b64decode(m)) for m in job["messages"]]))
`

/** Returns the verdicts on the signatures of each message, from one Python process. */
export function verifyEachWithDkimpy(
  messages: readonly Uint8Array[],
  records: Readonly<Record<string, string>>,
): boolean[][] {
  return runPython(VERIFY_EACH, { records, messages: messages.map((each) => Buffer.from(each).toString('base64')) })
}

/** Returns one verdict per message, from one Python process. */
export function verifyWithDkimpy(messages: readonly Uint8Array[], record: string): boolean[] {
  const job = { record, messages: messages.map((message) => Buffer.from(message).toString('base64')) }
  return runPython<unknown>(VERIFY_ALL, job).map((verdict) => verdict === true)
}

function runPython<T>(program: string, job: unknown): T[] {
  const { stdout, stderr, exitCode } = Bun.spawnSync([PYTHON, '-c', program], {
    stdin: Buffer.from(JSON.stringify(job)),
  })
  if (exitCode !== 0) throw new Error(stderr.toString())
  const verdicts: unknown = JSON.parse(stdout.toString())
  if (!Array.isArray(verdicts)) throw new Error('dkimpy gave no list')
  return verdicts as T[]
}

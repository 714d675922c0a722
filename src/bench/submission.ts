/** @module The SMTP submission of the benchmark: the same emails as over HTTP, over as many connections with TLS. */
import { join } from 'node:path'
import { CommandError } from '#app/cli/admin-command.ts'
import type { LoadResult } from './load.ts'
import { createMailPatterns } from './mails.ts'
import { spawnSelf } from './processes.ts'
import type { SubmitJob } from './submit.ts'

/** Hidden command for a child process of the benchmark. */
export const SUBMIT_COMMAND = 'bench-hand-in'

export interface SubmissionOptions {
  /** Where the messages are written. */
  readonly folder: string
  /** With TLS from the first octet. */
  readonly port: number
  readonly key: string
  readonly connections: number
  readonly count: number
  /** RFC 3339. */
  readonly sendAt: string
}

/** Submits messages that are sent later, each once, and waits for the last 250. */
export async function submitMessages(options: SubmissionOptions): Promise<LoadResult> {
  const { folder, port, key, connections } = options
  const jobFile = join(folder, 'bench-submission.json')
  const job: SubmitJob = { port, connections, key, ...(await writeMessages(options)) }
  await Bun.write(jobFile, JSON.stringify(job))
  await using client = spawnSelf([SUBMIT_COMMAND, jobFile])
  const result = JSON.parse(await client.readLine()) as LoadResult
  if (result.refused > 0) throw new CommandError(`${result.refused} submitted messages were not accepted.`)
  return result
}

async function writeMessages({
  folder,
  count,
  sendAt,
}: SubmissionOptions): Promise<Pick<SubmitJob, 'file' | 'places' | 'mailFrom' | 'rcptTo'>> {
  const patterns = createMailPatterns()
  const file = join(folder, 'bench-submissions')
  const writer = Bun.file(file).writer()
  const places = [0]
  for (let number = 0; number < count; number++) {
    const pattern = patterns[number % patterns.length]
    if (!pattern) throw new Error('the benchmark has no emails')
    const digits = String(number).padStart(8, '0')
    const { from, to, subject } = pattern
    const message = [
      `From: ${from}`,
      `To: ${to}`,
      `Subject: ${subject} ${digits}`,
      `Message-ID: <${digits}@submission.bench.test>`,
      `X-Tassis-Send-At: ${sendAt}`,
      'MIME-Version: 1.0',
      'Content-Type: multipart/alternative; boundary="alternative"',
      '',
      '--alternative',
      'Content-Type: text/plain; charset=utf-8',
      '',
      `${digits} ${pattern.text_body}`,
      '--alternative',
      'Content-Type: text/html; charset=utf-8',
      '',
      `<!-- ${digits} -->${pattern.html_body}`,
      '--alternative--',
      '',
    ]
      .join('\n')
      .replaceAll('\n', '\r\n')
    writer.write(message)
    places.push((places.at(-1) ?? 0) + Buffer.byteLength(message))
  }
  await writer.end()
  const [{ from = '', to = '' } = {}] = patterns
  return { file, places, mailFrom: from.replace(/^.*<(.*)>$/, '$1'), rcptTo: to }
}

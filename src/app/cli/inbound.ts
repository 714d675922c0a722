/**
 * @module `tassis inbound`: received mail that could not be parsed, so that its owner has its header and its raw form only. Lists it and parses it again.
 * Strangers wrote it: nothing of it reaches the terminal but text.
 */
import { type Command, Option } from 'commander'
import { listUnparsed, retryUnparsed, type Unparsed, type UnparsedPlace } from '#features/receiving/inbound/retry.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { loadConfig } from '../settings.ts'
import { type Call, withData } from './call.ts'
import { CommandError, operation } from './operation.ts'
import { type JsonOption, withJson, withLimit } from './options.ts'
import { counted, printable, report, shortened, table, utc } from './output.ts'

interface ShownUnparsed {
  readonly id: string
  /** `inbound`: of a route or a domain; `mailbox`: in an agent mailbox. */
  readonly kind: string
  readonly to: string
  readonly from: string
  readonly subject: string
  readonly parse_error: string
  readonly received_at: string
}

const shownUnparsed = (unparsed: Unparsed): ShownUnparsed => ({
  id: formatUuid(unparsed.uuid),
  kind: unparsed.kind,
  to: unparsed.to,
  from: unparsed.from,
  subject: unparsed.subject,
  parse_error: unparsed.problem,
  received_at: isoTime(unparsed.receivedAt),
})

interface ListInput {
  readonly after: UnparsedPlace
  readonly limit: number
}

const START: UnparsedPlace = { inbound: 0, mailbox: 0 }

const list = operation('inbound.list', ({ opened: { app } }, { after, limit }: ListInput) => {
  const { unparsed, place } = listUnparsed(app, after, limit)
  return { messages: unparsed.map(shownUnparsed), place: place ?? null }
})

interface Retried {
  readonly id: string
  /** Null: it was parsed. */
  readonly parse_error: string | null
}

const retry = operation(
  'inbound.retry',
  async ({ opened: { app, parser } }, { id }: { readonly id: string }): Promise<Retried> => {
    const problem = await retryUnparsed(app, parser, id)
    return { id, parse_error: problem ?? null }
  },
)

export const inboundOperations = [list, retry]

export function addInboundCommands(program: Command): void {
  const inbound = program
    .command('inbound')
    .description('received mail that could not be parsed: it has its header and its raw form only')

  withLimit(
    withJson(inbound.command('list').description('show it, the oldest first')),
    'most of each kind that are shown',
    30,
  ).action(async (options: JsonOption & { readonly limit: number }) => {
    const found = await withData(loadConfig().config, (call) => call(list, { after: START, limit: options.limit }))
    report(options, { messages: found.messages, has_more: found.place !== null }, listText)
  })

  withJson(
    inbound
      .command('retry')
      .description('parse a message again, and give its owner what is in it; nobody is told of it a second time'),
  )
    .argument('[id]', 'as `tassis inbound list` shows it')
    .addOption(new Option('--all', 'every message that could not be parsed'))
    .action(async (id: string | undefined, options: JsonOption & { readonly all?: boolean }) => {
      if ((id === undefined) === (options.all !== true))
        throw new CommandError('Give the id of a message, or --all for every one of them.')
      const retried = await withData(loadConfig().config, (call) =>
        id === undefined ? retryAll(call) : call(retry, { id }).then((one) => [one]),
      )
      report(options, { messages: retried }, retriedText)
      if (retried.some((message) => message.parse_error !== null)) process.exitCode = 1
    })
}

const BATCH_SIZE = 100

/** Each of them once, one after the other. */
async function retryAll(call: Call): Promise<Retried[]> {
  const retried: Retried[] = []
  for (let after: UnparsedPlace | null = START; after !== null; ) {
    const page: Awaited<ReturnType<typeof list.run>> = await call(list, { after, limit: BATCH_SIZE })
    for (const { id } of page.messages) retried.push(await call(retry, { id }))
    after = page.place
  }
  return retried
}

const LONGEST_CELL = 40

function listText({
  messages,
  has_more,
}: {
  readonly messages: readonly ShownUnparsed[]
  readonly has_more: boolean
}): string {
  if (messages.length === 0) return 'Every received message could be parsed.'
  return [
    table(
      ['ID', 'RECEIVED', 'KIND', 'TO', 'FROM', 'SUBJECT', 'WHY'],
      messages.map((row) => [
        row.id,
        utc(row.received_at),
        row.kind,
        shortened(row.to, LONGEST_CELL),
        shortened(row.from, LONGEST_CELL),
        shortened(row.subject, LONGEST_CELL),
        row.parse_error,
      ]),
    ),
    ...(has_more ? ['… and more (--limit)'] : []),
  ].join('\n')
}

function retriedText({ messages }: { readonly messages: readonly Retried[] }): string {
  const failed = messages.filter((message) => message.parse_error !== null)
  return [
    `${counted(messages.length - failed.length, 'message')} parsed.`,
    ...failed.map(({ id, parse_error }) => `${id} still cannot be parsed: ${printable(parse_error ?? '')}`),
  ].join('\n')
}

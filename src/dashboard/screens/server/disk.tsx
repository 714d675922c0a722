/** @module What uses the disk, how long it is retained, and what is deleted next. */
import { Group, Progress, Text } from '@mantine/core'
import type { OperatorDisk } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { formatBytes } from '../../parts/format.ts'
import { Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { formatPercent, toGroupName, toKindName } from './format.ts'
import { AccountLink, ServerPage, useOne } from './frame.tsx'

type Use = NonNullable<OperatorDisk['use']>
type Kind = Use['kinds'][number]

export default function DiskScreen() {
  const query = useOne(read.operator.getDisk())
  return (
    <ServerPage title="Disk" query={query}>
      {(disk) => <Disk disk={disk} />}
    </ServerPage>
  )
}

const Disk = ({
  disk: { file_system: fileSystem, is_measuring: isMeasuring, use },
}: {
  readonly disk: OperatorDisk
}) => (
  <>
    <FileSystem {...fileSystem} />
    {use === null ? (
      <Text role="status" c="dimmed">
        {isMeasuring
          ? 'The use is being measured, which reads the whole database. It appears here when that is done.'
          : 'The use could not be measured; the log of the service says why. It is tried again.'}
      </Text>
    ) : (
      <UseOfDisk use={use} isMeasuring={isMeasuring} />
    )}
  </>
)

function FileSystem({ size_bytes: size, free_bytes: free, wanted_free_bytes: wanted }: OperatorDisk['file_system']) {
  const isLow = free < wanted
  return (
    <section aria-label="The disk">
      <Group justify="space-between">
        <Text fw={600}>
          {formatBytes(free)} of {formatBytes(size)} free
        </Text>
        {isLow ? (
          <StatusLabel tone="bad">New mail is refused: less than {formatBytes(wanted)} is free</StatusLabel>
        ) : (
          <StatusLabel tone="good">Enough space</StatusLabel>
        )}
      </Group>
      <Progress
        value={(100 * (size - free)) / Math.max(1, size)}
        color={isLow ? 'red' : 'blue'}
        aria-label={`${formatPercent(size - free, size)} of the disk are used`}
        mt="xs"
      />
    </section>
  )
}

function UseOfDisk({ use, isMeasuring }: { readonly use: Use; readonly isMeasuring: boolean }) {
  return (
    <>
      <Section
        title="What is deleted next"
        description={
          <>
            All data: {formatBytes(use.total_bytes)} in <bdi>{use.data_dir}</bdi>, measured <Time iso={use.at} />
            {isMeasuring && ', being measured again'}.
          </>
        }
      >
        <DataTable label="What is retained" isWide columns={KIND_COLUMNS} rows={use.kinds} toKey={({ kind }) => kind} />
      </Section>
      <Accounts kinds={use.kinds} />
      <Section title="What uses the space">
        <DataTable label="What uses the space" columns={USE_COLUMNS} rows={listUses(use)} toKey={({ name }) => name} />
      </Section>
    </>
  )
}

const KIND_COLUMNS: readonly Column<Kind>[] = [
  column('Kind', {}, ({ kind }) => toKindName(kind)),
  column('Used', { width: '12%', isNumeric: true }, ({ used_bytes: bytes }) => formatBytes(bytes)),
  column('Limit', { width: '12%', isNumeric: true }, ({ max_bytes: bytes }) =>
    bytes === null ? 'None' : formatBytes(bytes),
  ),
  column('Retained', { width: '12%', isNumeric: true }, ({ max_days: days }) => `${days} days`),
  column('Oldest', { width: '17%' }, ({ oldest_at: at }) => <Time iso={at} />),
  column('Deleted next', { width: '30%', isWrapped: true }, (kind) => <NextDeletion kind={kind} />),
]

function NextDeletion({ kind: { goes_at: at, over_before: before } }: { readonly kind: Kind }) {
  if (before !== null)
    return (
      <StatusLabel tone="warning">
        Over its limit: the oldest above the fair share, up to <Time iso={before} />, within the hour
      </StatusLabel>
    )
  if (at === null) return 'Nothing'
  return <Time before="The oldest, " iso={at} isRelative />
}

interface AccountRow {
  readonly kind: Kind
  readonly account: Kind['accounts'][number]
}

/** Accounts shown for each kind, besides those above their share. */
const MAX_SHOWN = 3

const ACCOUNT_COLUMNS: readonly Column<AccountRow>[] = [
  column('Account', {}, ({ account: { id, name } }) => <AccountLink id={id} name={name} />),
  column('Kind', {}, ({ kind }) => toKindName(kind.kind)),
  column('Used', { width: '12%', isNumeric: true }, ({ account }) => formatBytes(account.used_bytes)),
  column('Part', { width: '12%', isNumeric: true }, ({ kind, account }) =>
    formatPercent(account.used_bytes, kind.used_bytes),
  ),
  column('Fair share', { width: '17%' }, ({ account: { share_bytes: share } }) =>
    share === null ? 'Within it' : formatBytes(share),
  ),
  column(
    'Deleted next',
    { width: '30%', isWrapped: true },
    ({ account: { goes_before: before, share_bytes: share } }) =>
      before !== null ? (
        <Time before="Its oldest, up to " iso={before} after=", within the hour" />
      ) : share === null ? (
        'Nothing'
      ) : (
        'Nothing: the rest is unread or open'
      ),
  ),
]

function Accounts({ kinds }: { readonly kinds: readonly Kind[] }) {
  const rows = kinds.flatMap((kind) =>
    kind.accounts
      .filter(({ share_bytes: share }, index) => index < MAX_SHOWN || share !== null)
      .map((account) => ({ kind, account })),
  )
  if (rows.length === 0) return null
  return (
    <Section title="Accounts that use most">
      <DataTable
        label="Accounts that use most"
        isWide
        columns={ACCOUNT_COLUMNS}
        rows={rows}
        toKey={({ kind, account }) => `${kind.kind} ${account.id}`}
      />
    </Section>
  )
}

interface UseRow {
  readonly name: string
  readonly bytes: number
}

const USE_COLUMNS: readonly Column<UseRow>[] = [
  column('Use', {}, ({ name }) => name),
  column('Size', { width: '30%', isNumeric: true, phone: 'aside' }, ({ bytes }) => formatBytes(bytes)),
]

const sum = (months: readonly { readonly bytes: number }[]): number =>
  months.reduce((total, { bytes }) => total + bytes, 0)

const listUses = (use: Use): UseRow[] =>
  [
    ...Object.entries(use.database.groups).map(([group, bytes]) => ({
      name: `Database: ${toGroupName(group).toLowerCase()}`,
      bytes,
    })),
    { name: 'Database: free, for new rows', bytes: use.database.free_bytes },
    { name: 'Write-ahead log', bytes: use.database.wal_bytes },
    { name: 'Bodies and attachments', bytes: sum(use.content) },
    { name: 'Received messages in raw form', bytes: sum(use.raw_mail) },
    { name: 'Captured messages', bytes: use.captures_bytes },
    { name: 'Waiting imports', bytes: use.imports_bytes },
    { name: 'Other files', bytes: use.other_bytes },
  ]
    .filter(({ bytes }) => bytes > 0)
    .sort((a, b) => b.bytes - a.bytes)

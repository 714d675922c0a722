/** @module What the hourly checks of the service found: what is bad with its fix, and the rest on request. */
import { Alert, Code, List, Stack, Text } from '@mantine/core'
import { read } from '../../api/client.ts'
import { formatCount } from '../../parts/format.ts'
import { Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import type { Tone } from '../../parts/tone.ts'
import { type DoctorFinding, describeOther, listBad, listOther, toWords } from './format.ts'
import { useOne } from './queries.ts'

const MAX_SHOWN = 20

interface ChecksProps {
  /** Problems of the settings, shown until the checks have run, which find them too. */
  readonly warnings: readonly string[]
}

export function Checks({ warnings }: ChecksProps) {
  const report = useOne(read.operator.getDoctor()).data
  if (!report?.checked_at)
    return warnings.map((warning) => (
      <Alert key={warning} color="yellow" title="A setting needs attention">
        {warning}
      </Alert>
    ))
  const bad = listBad(report.findings)
  const other = listOther(report.findings)
  const more = bad.length - MAX_SHOWN
  return (
    <Section title="Checks" gap="xs">
      <Stack gap="xs">
        <Text size="sm" c="dimmed">
          Made at <Time iso={report.checked_at} />, again every hour. <Code>tassis doctor</Code> on the server makes
          them now.
        </Text>
        {bad.length === 0 && <StatusLabel tone="good">All checks that could be made are well</StatusLabel>}
        {bad.slice(0, MAX_SHOWN).map((finding) => (
          <BadFinding key={`${finding.check} ${finding.subject}`} finding={finding} />
        ))}
        {more > 0 && <Text size="sm">And {formatCount(more, 'more problem')} (tassis doctor).</Text>}
        <details>
          <summary>{describeOther(other)}</summary>
          <List size="sm" listStyleType="none" mt="xs" spacing="xs">
            {other.map(({ check, subject, status, message }) => (
              <List.Item key={`${check} ${subject}`} style={{ overflowWrap: 'anywhere' }}>
                <StatusLabel tone={TONES[status]}>{toWords(check)}</StatusLabel> <bdi>{message}</bdi>
              </List.Item>
            ))}
          </List>
        </details>
      </Stack>
    </Section>
  )
}

const TONES: Readonly<Record<DoctorFinding['status'], Tone>> = {
  ok: 'good',
  warning: 'warning',
  failure: 'bad',
  skipped: 'neutral',
}

const BadFinding = ({ finding: { check, status, message, fix } }: { readonly finding: DoctorFinding }) => (
  <Alert
    color={status === 'failure' ? 'red' : 'yellow'}
    title={`${status === 'failure' ? 'Failed' : 'Warning'}: ${toWords(check)}`}
  >
    <Stack gap={2}>
      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
        <bdi>{message}</bdi>
      </Text>
      {fix !== null && (
        <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
          <Fix text={fix} />
        </Text>
      )}
    </Stack>
  </Alert>
)

/** What is between backquotes is for a shell or a file. */
const Fix = ({ text }: { readonly text: string }) =>
  text.split('`').map((part, index) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other name
    index % 2 === 1 ? <Code key={index}>{part}</Code> : part,
  )

/** @module Reports on the stats of the account, with what to do about each finding. */
import { Alert, Card, Group, Stack, Text, Title } from '@mantine/core'
import type { Insight } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api, read } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton, SmallAction } from '../parts/buttons.tsx'
import { FormError } from '../parts/form-error.tsx'
import { TextLink } from '../parts/links.tsx'
import { ListBody, useList } from '../parts/list.tsx'
import { LongText } from '../parts/long-text.tsx'
import { EmptyState, Page } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import type { Tone } from '../parts/tone.ts'

export default function InsightsScreen() {
  const reason = useAllowed('admin')
  const list = useList({ read: read.insights.list, enabled: reason === undefined })
  const generate = useChange(() => api.insights.generate(), 'insights')
  const run = (
    <ActionButton reason={reason} loading={generate.isPending} onClick={() => generate.mutate()}>
      Generate a report
    </ActionButton>
  )
  return (
    <Page title="Insights" action={list.isEmpty ? undefined : run}>
      <Text>
        <TextLink to="/analytics">Analytics</TextLink>
      </Text>
      <div role="status">
        {generate.isPending && <Text>The stats of the last four weeks are looked at. This takes up to a minute.</Text>}
        {generate.isSuccess && <Text>The report is ready.</Text>}
      </div>
      <GenerateError error={generate.error} at={generate.submittedAt} />
      {reason !== undefined ? (
        <Alert color="gray">{reason}</Alert>
      ) : (
        <ListBody
          list={list}
          noun="report"
          empty={
            <EmptyState
              title="Reports on your mail will appear here"
              text="A report says in plain words what the stats of the last four weeks show, what is wrong and what to do about it. A language model chosen by the operator of this server writes it; it gets numbers only, no address and no content."
            >
              {run}
            </EmptyState>
          }
        >
          {(reports) => reports.map((report) => <Report key={report.id} report={report} />)}
        </ListBody>
      )}
    </Page>
  )
}

/** @param at when it was asked for, in milliseconds */
function GenerateError({ error, at }: { readonly error: unknown; readonly at: number }) {
  if (!(error instanceof TassisError) || error.code !== 'insights_generated_recently')
    return <FormError error={error} />
  return (
    <Alert color="yellow" role="alert">
      There is a report from the last 24 hours.{' '}
      {error.retryAfter !== undefined && (
        <>
          The next one can be generated after <Time iso={new Date(at + error.retryAfter * 1000).toISOString()} />.
        </>
      )}
    </Alert>
  )
}

const SEVERITIES: Readonly<
  Record<Insight['findings'][number]['severity'], { readonly word: string; readonly tone: Tone }>
> = {
  critical: { word: 'Critical', tone: 'bad' },
  warn: { word: 'Warning', tone: 'warning' },
  info: { word: 'Note', tone: 'neutral' },
}

function Report({ report }: { readonly report: Insight }) {
  const acknowledge = useChange(() => api.insights.acknowledge(report.id), 'insights')
  const titleId = `report-${report.id}`
  return (
    <Card withBorder component="article" aria-labelledby={titleId}>
      <Stack gap="sm" align="flex-start">
        <Title order={2} size="h4" id={titleId}>
          <Time iso={report.generated_at} />
        </Title>
        <Text>{report.summary}</Text>
        <Stack component="ul" gap="sm" p={0} m={0} style={{ listStyle: 'none' }}>
          {report.findings.map(({ severity, area, observation, recommendation }) => (
            <li key={`${severity} ${observation}`}>
              <Group gap="xs">
                <StatusLabel tone={SEVERITIES[severity].tone}>{SEVERITIES[severity].word}</StatusLabel>
                <Text size="sm">{area}</Text>
              </Group>
              <Text>{observation}</Text>
              <Text size="sm">
                <b>What to do:</b> {recommendation}
              </Text>
            </li>
          ))}
        </Stack>
        <details style={{ maxWidth: '100%' }}>
          <summary>The whole report</summary>
          <LongText label="The whole report" text={report.raw_markdown} />
        </details>
        <Group gap="sm">
          {report.acknowledged_at === null ? (
            <SmallAction loading={acknowledge.isPending} onClick={() => acknowledge.mutate()}>
              Mark as read
            </SmallAction>
          ) : (
            <Text size="sm">
              Read: <Time iso={report.acknowledged_at} />
            </Text>
          )}
          <Text size="sm" c="dimmed">
            Written by <bdi>{report.model}</bdi>
          </Text>
        </Group>
        <FormError error={acknowledge.error} />
      </Stack>
    </Card>
  )
}

/** @module Reports on the stats of the account, with what to do about each finding. */
import { Text } from '@mantine/core'
import type { Insight } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton, SmallAction } from '../parts/buttons.tsx'
import { Findings, SEVERITIES } from '../parts/findings.tsx'
import { FormError } from '../parts/form-error.tsx'
import { formatDay } from '../parts/format.ts'
import { ListBody, useList } from '../parts/list.tsx'
import { LongText } from '../parts/long-text.tsx'
import { Notice } from '../parts/notice.tsx'
import { EmptyState, Page } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { AnalyticsNavigation } from './analytics/navigation.tsx'

export default function InsightsScreen() {
  const reason = useAllowed('admin')
  const list = useList({ read: read.insights.list, enabled: reason === undefined })
  const generate = useChange(() => api.insights.generate(), 'insights')
  const run = (
    <ActionButton reason={reason} loading={generate.isPending} onClick={() => generate.mutate()}>
      Create a report
    </ActionButton>
  )
  return (
    <Page
      title="Insights"
      navigation={<AnalyticsNavigation />}
      action={list.isEmpty || reason !== undefined ? undefined : run}
    >
      <div role="status" hidden={!generate.isPending && !generate.isSuccess}>
        {generate.isPending && (
          <Notice tone="active">Reading the figures of four weeks. This takes up to a minute.</Notice>
        )}
        {generate.isSuccess && <Notice tone="good">The report is ready.</Notice>}
      </div>
      <FormError error={generate.error} />
      {reason !== undefined ? (
        <Notice>{reason}</Notice>
      ) : (
        <ListBody
          list={list}
          noun="report"
          empty={
            <EmptyState
              title="Reports on your mail appear here"
              text="What the figures of the last four weeks show, what is wrong and what to do. A language model, chosen by the operator of this server, writes it from numbers only: no address, no content."
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

function Report({ report }: { readonly report: Insight }) {
  const acknowledge = useChange(() => api.insights.acknowledge(report.id), 'insights')
  const titleId = `report-${report.id}`
  return (
    <article className="card" aria-labelledby={titleId}>
      <div className="section-head">
        <h2 id={titleId} className="report-title">
          {formatDay(new Date(report.period_start))} to {formatDay(new Date(report.period_end))}
        </h2>
        {report.acknowledged_at === null ? (
          <SmallAction loading={acknowledge.isPending} onClick={() => acknowledge.mutate()}>
            Mark as read
          </SmallAction>
        ) : (
          <Text span c="dimmed">
            Read: <Time iso={report.acknowledged_at} />
          </Text>
        )}
      </div>
      <Text maw="44rem">{report.summary}</Text>
      <Findings
        label="Findings"
        findings={report.findings.map(({ severity, observation, recommendation }) => ({
          key: `${severity} ${observation}`,
          state: SEVERITIES[severity],
          text: <b className="row-title">{observation}</b>,
          advice: recommendation,
        }))}
      />
      <details className="fold">
        <summary>The whole report</summary>
        <LongText label="The whole report" text={report.raw_markdown} />
        <Text size="xs" c="dimmed">
          Written <Time iso={report.generated_at} /> by <bdi>{report.model}</bdi>
        </Text>
      </details>
      <FormError error={acknowledge.error} />
    </article>
  )
}

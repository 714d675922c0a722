/** @module Has Tassis publish the records of a domain at its DNS provider: the token, the plan, what became of it. */
import { Anchor, Button, Group, NativeSelect, Stack } from '@mantine/core'
import { useState } from 'react'
import type { Domain, DomainPublish, CreateDomainPublishRequest as Request } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { SmallAction } from '../../parts/buttons.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { FieldForm } from '../../parts/field-form.tsx'
import { bindText, FormError } from '../../parts/form.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { Notice, StateLabel } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import * as words from './publish-state.ts'
import { isNew, listNames } from './state.ts'

interface PublishingProps {
  readonly domain: Domain
}

export const Publishing = ({ domain }: PublishingProps) => (
  <QueryView query={useData(read.domains.getPublish(domain.id))}>
    {(state) => <PublishCard {...{ domain, state }} />}
  </QueryView>
)

type Provider = Request['provider']

function PublishCard({ domain, state }: PublishingProps & { readonly state: DomainPublish }) {
  const { kept_at: keptAt, suggested_provider: suggested, domain_connect_url: connectUrl } = state
  const mayWrite = useAllowed('developer') === undefined
  const isOffered = isNew(domain) && !domain.covered_by && mayWrite && keptAt === null && suggested !== null
  const [isForm, setIsForm] = useState(isOffered)
  const [name, setName] = useState(suggested ?? '')
  const [sent, setSent] = useState<words.Sent>()
  // The table of records below has it checked every 10 seconds.
  const { data: dns } = useData(read.domains.getDns(domain.id), { staleTime: Number.POSITIVE_INFINITY })
  const send = useChange(
    async (body: Request): Promise<words.Sent> => ({ body, plan: (await api.domains.publish(domain.id, body)).data }),
    'domains',
  )
  const show = (next?: words.Sent) => {
    send.reset()
    setSent(next)
    setIsForm(false)
  }
  const run = (body: Request) => send.mutate(body, { onSuccess: show })
  const titleOf = (of: string | null) => state.providers.find((one) => one.name === of)?.title ?? of ?? 'your provider'
  const provider = state.providers.find((one) => one.name === name)
  const isPlan = !isForm && sent?.plan.dry_run
  const publishLabel = sent && words.toPublishLabel(sent.plan, sent.body)
  const rows = sent ? words.listRows(sent.plan) : []
  const result = sent && words.describePlan(domain, dns, sent.plan)
  return (
    <Section
      title="Publish for me"
      isCard
      description={
        keptAt === null ? (
          'With a token of your DNS provider, Tassis adds what is missing. You first see what would change.'
        ) : (
          <>
            Published by {titleOf(state.provider)}, token kept since <Time iso={keptAt} />, last publish{' '}
            <Time iso={state.published_at} />
            {state.error ? `. Last error: ${state.error}` : '.'}
          </>
        )
      }
      action={
        !isPlan && (
          <Group gap="xs">
            {keptAt !== null ? (
              <>
                <SmallAction needs="developer" loading={send.isPending} onClick={() => run({ dry_run: true })}>
                  Publish again
                </SmallAction>
                <ConfirmButton
                  label="Forget the token"
                  title="Forget the token?"
                  size="xs"
                  needs="developer"
                  refreshes={[['domains', 'getPublish']]}
                  run={() => api.domains.deletePublish(domain.id)}
                  done="The token was forgotten."
                >
                  The records stay. You publish new DKIM keys and the inbound MX yourself.
                </ConfirmButton>
              </>
            ) : (
              <>
                {mayWrite && connectUrl?.startsWith('https://') && (
                  <Button component="a" size="xs" variant="default" href={connectUrl} target="_blank" rel="noreferrer">
                    Add them at {titleOf(suggested)} (new tab)
                  </Button>
                )}
                <SmallAction needs="developer" onClick={() => (isForm ? show() : setIsForm(true))}>
                  {isForm ? 'Close' : 'Publish with a token'}
                </SmallAction>
              </>
            )}
          </Group>
        )
      }
    >
      {isForm && (
        <Stack maw={560}>
          <NativeSelect
            label={`DNS provider of ${domain.domain}`}
            description={
              <>
                {provider && `Needed: ${provider.rights} `}
                {provider?.token_url && (
                  <Anchor inherit href={provider.token_url} target="_blank" rel="noreferrer" underline="always">
                    Create one (new tab).
                  </Anchor>
                )}
              </>
            }
            data={[
              { value: '', label: 'Choose yours' },
              ...state.providers.map((one) => ({ value: one.name, label: one.title })),
            ]}
            {...bindText(name, setName)}
          />
          {provider && (
            <FieldForm
              key={name}
              gap="lg"
              label="Show the plan"
              done=""
              fields={words.toFields(provider)}
              initial={{ keep: sent?.body.keep ?? true, ...(sent?.body.provider === name && sent.body.credentials) }}
              run={({ keep, ...credentials }: Record<string, string>) =>
                send.mutateAsync({ provider: name as Provider, keep: Boolean(keep), credentials, dry_run: true })
              }
              onDone={show}
            />
          )}
        </Stack>
      )}
      {!isForm && sent && (
        <>
          <div key={isPlan ? 'plan' : 'result'} ref={focus} tabIndex={-1} role="status">
            {result && <Notice tone={result.tone}>{result.word}</Notice>}
          </div>
          {rows.length > 0 && (
            <DataTable
              label={isPlan ? 'Plan' : 'Not published'}
              rows={rows}
              toKey={({ key }) => key}
              toMarks={({ key, action }) => ({ 'data-planned': key, 'data-action': action })}
              columns={COLUMNS}
            />
          )}
        </>
      )}
      {isPlan && (
        <Group gap="xs">
          {publishLabel && (
            <Button loading={send.isPending} onClick={() => run({ ...sent.body, dry_run: false })}>
              {publishLabel}
            </Button>
          )}
          <Button variant="default" onClick={() => (sent.body.provider ? setIsForm(true) : show())}>
            Back
          </Button>
        </Group>
      )}
      {!isForm && <FormError error={send.error} />}
    </Section>
  )
}

/** Of what takes the place of the button that was pressed. */
const focus = (element: HTMLElement | null) => element?.focus()

const COLUMNS: readonly Column<words.PlannedRecord>[] = [
  column('Record', { width: '10rem' }, ({ key }) => <strong>{listNames([key])}</strong>),
  column('What happens', { width: '12rem', phone: 'aside' }, (row) => <StateLabel state={words.toState(row)} />),
  column('Details', { isWrapped: true, phone: 'bare' }, (row) => words.listNotes(row).map(toLine)),
]

const toLine = ({ word, value }: ReturnType<typeof words.listNotes>[number]) => (
  <div key={`${word} ${value}`} className="cell-note">
    {word} {value && <code>{value}</code>}
  </div>
)

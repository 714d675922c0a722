/** @module The first step of adding a domain: its name. The page of the domain has the next ones. */
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { CreateDomainRequest } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api } from '../api/client.ts'
import { FieldForm } from '../parts/field-form.tsx'
import { TextLink } from '../parts/links.tsx'
import { Page } from '../parts/page.tsx'
import { Steps } from './domains/marks.tsx'
import { toTypedDomain, toWarningsKey } from './domains/state.ts'

export default function DomainNewScreen() {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [isKnown, setIsKnown] = useState(false)
  return (
    <Page title="Add a domain" back={{ label: 'Domains', target: { to: '/domains' } }}>
      <Steps current={1} />
      <FieldForm
        maw={480}
        needs="developer"
        label="Continue"
        isFocused
        fields={[
          {
            name: 'domain',
            label: 'Domain',
            kind: 'code',
            hint: 'What comes after the @ of your sender address. A subdomain, such as mail.example.com, has a reputation of its own.',
            placeholder: 'example.com',
            isRequired: true,
          },
        ]}
        refreshes={[['domains', 'list']]}
        run={async ({ domain }: CreateDomainRequest) => {
          setIsKnown(false)
          return await api.domains.create({ domain: toTypedDomain(domain) }).catch((error) => {
            setIsKnown(error instanceof TassisError && error.code === 'domain_exists')
            throw error
          })
        }}
        onDone={({ data, warnings = [] }) => {
          queries.setQueryData(toWarningsKey(data.id), warnings)
          return navigate({ to: '/domains/$id', params: { id: data.id } })
        }}
        actions={isKnown && <TextLink to="/domains">Find it among your domains</TextLink>}
      />
    </Page>
  )
}

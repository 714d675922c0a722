import { Page } from '../parts/page.tsx'

export const WebhooksScreen = () => <Page title="Webhooks">Not built</Page>

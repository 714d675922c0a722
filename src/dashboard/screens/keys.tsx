import { Page } from '../parts/page.tsx'

export const ApiKeysScreen = () => <Page title="API keys">Not built</Page>
